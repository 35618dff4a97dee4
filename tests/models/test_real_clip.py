"""`queryshift run real-clip` with a tiny CLIP and tiny archives: all but the names is real."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from queryshift.cli import main
from queryshift.errors import BadFile
from queryshift.lab.datasets import DATASETS, HOME
from queryshift.lab.datasets.reading import downloads
from queryshift.lab.datasets.reading.downloads import downloaded
from small_datasets import small


@pytest.fixture
def archives(tmp_path, monkeypatch):
    """The publisher's two zip files, of a small Flickr8k, at addresses that can be reached."""
    root = small.flickr8k(tmp_path / "published")
    addresses = []
    for folder in ("Flicker8k_text", "Flicker8k_Dataset"):
        path = tmp_path / f"{folder}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for file in (root / folder).iterdir():
                archive.write(file, f"{folder}/{file.name}")
        addresses.append(path.as_uri())
    flickr8k = replace(DATASETS["flickr8k"], archives=addresses)
    monkeypatch.setitem(DATASETS, "flickr8k", flickr8k)
    monkeypatch.delenv(HOME, raising=False)
    monkeypatch.setattr(downloads, "CACHE", tmp_path / "cache")
    return [Path(address.removeprefix("file://")) for address in addresses]


def run(*words):
    return CliRunner().invoke(main, ["run", "real-clip", "--device", "cpu", *map(str, words)])


def test_one_command_downloads_runs_and_writes_the_table(checkpoint, archives, tmp_path):
    model, out = checkpoint("CLIPModel"), tmp_path / "out"
    told = run("--model", model, "--out", out, "--queries", 2, "--json")
    assert told.exit_code == 0, told.output
    cells = [json.loads(line) for line in told.stdout.splitlines()]
    rows = {(cell["benchmark"], cell["shift"]) for cell in cells}
    assert len(rows) == 4 + 1 + 4 + 1 and len(cells) == 4 * len(rows)
    assert {cell["method"] for cell in cells} == {"frozen", "default", "rest", "shot"}
    assert (tmp_path / "cache" / "flickr8k" / "Flicker8k_Dataset").is_dir()
    again = run("--model", model, "--out", out, "--queries", 2)
    assert again.exit_code == 0 and "default" in again.output
    assert f"0 cells run, {len(cells)} kept from before." in again.output


def test_files_that_are_there_are_not_downloaded(archives, tmp_path, monkeypatch):
    home = tmp_path / "home" / "flickr8k"
    assert downloaded("flickr8k", home) == home
    for archive in archives:
        archive.unlink()
    assert downloaded("flickr8k", home) == home
    assert len(DATASETS["flickr8k"](home)) == 2


def test_an_archive_that_cannot_be_had_is_named_and_tried_again(archives, tmp_path):
    pictures = archives[1].read_bytes()
    archives[1].write_bytes(pictures[:50])
    with pytest.raises(BadFile, match=r"Flicker8k_Dataset\.zip cannot be had .* --root"):
        downloaded("flickr8k")
    archives[1].write_bytes(pictures)
    archives[0].unlink()  # was unpacked, and is not asked for again
    assert len(DATASETS["flickr8k"](downloaded("flickr8k"))) == 2
    assert not list((tmp_path / "cache" / "flickr8k").glob("tmp*"))


def test_a_model_or_a_folder_of_ones_own_needs_no_network(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "_unpack", lambda *given: pytest.fail("went to the network"))
    root = small.flickr8k(tmp_path / "own")
    told = run(
        "--model", checkpoint("CLIPModel"), "--root", root, "--out", tmp_path, "-m", "frozen"
    )
    assert told.exit_code == 0, told.output
