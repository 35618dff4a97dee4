import json
from dataclasses import asdict, replace

import pytest

from queryshift.errors import BadFile
from queryshift.lab.corruptions.files import manifest

ENTRY = manifest.Entry(
    id="a/b.jpg",
    modality="image",
    corruption="fog",
    severity=3,
    seed=0,
    backend="imagenet_c",
    options={},
    quality=95,
    version="0.1.0",
    source="00",
    files={"a/b.jpg": "11"},
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out" / manifest.NAME


def test_what_is_appended_is_read(path):
    other = replace(ENTRY, id="c\n'\udcff.jpg", options={"noise": "/x"})
    for entry in (ENTRY, other):
        manifest.append(path, entry)
    assert manifest.read(path) == [ENTRY, other]
    assert path.read_bytes().count(b"\n") == 2


@pytest.mark.parametrize("cut", [1, 5, 100])
def test_an_unfinished_line_is_ignored_and_then_cut_off(path, cut):
    for entry in (ENTRY, replace(ENTRY, id="lost")):
        manifest.append(path, entry)
    path.write_bytes(path.read_bytes()[:-cut])
    assert manifest.read(path) == [ENTRY]
    manifest.append(path, replace(ENTRY, id="next"))
    assert [entry.id for entry in manifest.read(path)] == ["a/b.jpg", "next"]


def test_a_file_that_is_all_unfinished_starts_anew(path):
    path.parent.mkdir()
    path.write_bytes(b'{"id": "a')
    assert manifest.read(path) == []
    manifest.append(path, ENTRY)
    assert manifest.read(path) == [ENTRY]


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        "3",
        '{"id": "a"}',
        json.dumps(asdict(ENTRY) | {"severity": "3"}),
        json.dumps(asdict(ENTRY) | {"files": ["a"]}),
        json.dumps(asdict(ENTRY) | {"files": {"a": 1}}),
        json.dumps(asdict(ENTRY) | {"options": {"noise": ["x"]}}),
        json.dumps(asdict(ENTRY) | {"files": {}}),
        json.dumps(asdict(ENTRY) | {"extra": 1}),
        "\udcff",
    ],
)
def test_a_foreign_line_is_named(path, line):
    manifest.append(path, ENTRY)
    with path.open("ab") as file:
        file.write(line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(BadFile, match=r"line 2 of .*manifest\.jsonl"):
        manifest.read(path)


@pytest.mark.parametrize("content", [b"my own notes", b'{"mine": 1}', b'{"id": 1}\nnotes'])
def test_a_file_of_someone_else_is_not_touched(path, content):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(BadFile, match="is not a manifest of queryshift"):
        manifest.read(path)
    with pytest.raises(BadFile, match="is not a manifest of queryshift"):
        manifest.append(path, ENTRY)
    assert path.read_bytes() == content


def test_a_manifest_that_cannot_be_written_is_a_sentence(path):
    path.mkdir(parents=True)
    with pytest.raises(BadFile, match="cannot be written: Is a directory"):
        manifest.append(path, ENTRY)


def test_a_missing_manifest_is_a_sentence(path):
    with pytest.raises(BadFile, match=r"there is no file .*manifest\.jsonl"):
        manifest.read(path)


def test_entries_are_made_alike_whatever_came_out():
    assert ENTRY.made_like(replace(ENTRY, files={"a/b.jpg": "22"}))
    assert not ENTRY.made_like(replace(ENTRY, files={"a/c.jpg": "11"}))
    assert not ENTRY.made_like(replace(ENTRY, seed=1))
    assert not ENTRY.made_like(replace(ENTRY, source="01"))
