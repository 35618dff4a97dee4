"""Tuning from files, and the command."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner
from PIL import Image

import queryshift as qs
from queryshift.cli import main
from queryshift.errors import BadFile, BadInput, UnknownName
from queryshift.lab import tangram
from queryshift.lab.own_traffic.traffic import traffic
from queryshift.lab.tuning.tune_files import advice_on, tune_files

COUNT = 16
WIDE = {"COLUMNS": "120"}
FEW = {"rates": (1e-2,), "temperatures": (0.05,)}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Pictures, their captions, and labels for ten of them."""
    folder = tmp_path_factory.mktemp("tune")
    (folder / "pictures").mkdir()
    scenes = tangram.scenes("test", COUNT)
    captions = [tangram.captions(scene)[0] for scene in scenes]
    for place, scene in enumerate(scenes):
        Image.fromarray(np.asarray(scene.image())).save(folder / "pictures" / f"{place:02}.png")
    (folder / "captions.txt").write_text("\n".join(captions) + "\n\n")
    labels = {f"{place:02}.png": [captions[place]] for place in range(10)}
    (folder / "labels.json").write_text(json.dumps(labels))
    return folder


def asked(home, *more):
    given = ["--queries", str(home / "pictures"), "--gallery", str(home / "captions.txt")]
    return CliRunner().invoke(
        main, ["tune", "tangram", *given, "--temperatures", "0.05", *more], env=WIDE
    )


class TestFiles:
    def test_captions_are_their_own_names_and_count_once(self, home, tmp_path):
        captions = (home / "captions.txt").read_text().split("\n")
        (tmp_path / "twice.json").write_text(
            json.dumps([{"caption": text} for text in captions * 2 if text])
        )
        found = tune_files(
            "tangram", home / "pictures", tmp_path / "twice.json", home / "labels.json", **FEW
        )
        assert found.labelled == 10 and found.source.recall >= 90

    def test_tables_are_read_as_evaluate_reads_them(self, home, tmp_path):
        lines = (home / "captions.txt").read_text().splitlines()
        rows = [json.dumps({"id": n, "text": text}) for n, text in enumerate(lines) if text]
        (tmp_path / "table.jsonl").write_text("\n".join(rows))
        found = tune_files("tangram", tmp_path / "table.jsonl", home / "pictures", **FEW)
        assert found.queries == COUNT

    def test_of_audio_need_a_model_for_it(self, home, tmp_path):
        for name in ("b", "a"):
            soundfile.write(tmp_path / f"{name}.wav", np.zeros(800, np.float32), 8000)
        with pytest.raises(BadInput, match="queries are audio, the model encodes image, text"):
            tune_files("tangram", tmp_path, home / "captions.txt")

    def test_that_cannot_be_told_are_refused(self, home, tmp_path):
        with pytest.raises(BadInput, match="no file or folder"):
            tune_files("tangram", tmp_path / "absent", home / "captions.txt")
        with pytest.raises(BadInput, match="has no file that ends in"):
            tune_files("tangram", tmp_path, home / "captions.txt")
        (tmp_path / "empty.txt").write_text("\n\n")
        with pytest.raises(BadFile, match="holds no captions"):
            tune_files("tangram", tmp_path / "empty.txt", home / "captions.txt")

    def test_of_labels_that_are_none_are_refused(self, home, tmp_path):
        (tmp_path / "l.json").write_text('["a"]')
        with pytest.raises(BadFile, match="holds no matches"):
            tune_files("tangram", home / "pictures", home / "captions.txt", tmp_path / "l.json")


class TestTuning:
    def test_with_labels(self, home):
        found = tune_files(
            "tangram", home / "pictures", home / "captions.txt", home / "labels.json", **FEW
        )
        assert (found.labelled, found.queries) == (10, COUNT)
        assert found.source.recall >= 90  # clean pictures

    def test_the_other_way_round(self, home):
        found = tune_files(
            "tangram", home / "captions.txt", home / "pictures", method="tent", **FEW
        )
        assert (found.method, found.labelled) == ("Tent", 0)

    def test_a_side_the_model_lacks_is_refused(self, home):
        with pytest.raises(BadInput, match="queries are image, the model encodes audio, video"):
            tune_files("tangram-clips", home / "pictures", home / "captions.txt")


class TestTheCommand:
    def test_shows_the_grid_and_a_line_to_paste(self, home):
        ran = asked(home, "--rates", "1e-3,1e-2", "--labels", str(home / "labels.json"))
        assert ran.exit_code == 0, ran.output
        assert "not adapted" in ran.output
        assert all(f" {rate} " in ran.output for rate in ("0.001", "0.01"))
        assert "recall at 1 over 10 labels, from 16 queries" in ran.output
        assert ran.output.splitlines()[-1].startswith(("qs.REST(lr=", "qs.Frozen()"))

    def test_gives_json(self, home):
        ran = asked(home, "--rates", "1e-2", "--json", "--sample", "16")
        found = json.loads(ran.output)
        assert [one["lr"] for one in found["trials"]] == [1e-2]
        assert found["labelled"] == 0

    def test_says_without_labels_what_it_cannot_tell(self, home):
        ran = asked(home, "--rates", "1e-2", "--sample", "16")
        assert "Cannot tell" in ran.output and "16 queries are too few" in ran.output
        assert "72 clicks" in ran.output

    def test_errors_are_sentences(self, home):
        ran = asked(home, "--rates", "fast")
        assert ran.exit_code == 2
        assert "give numbers with commas between them" in ran.output
        ran = asked(home, "--rates", "1e-2", "--labels", str(home / "absent.json"))
        assert ran.exit_code == 2
        assert "there is no file" in ran.output


class TestWithoutLabels:
    def test_a_rate_that_breaks_the_model_is_not_advised(self, captions):
        shown = {place: scene.image() for place, scene in enumerate(tangram.scenes("dev", 256))}
        asked = traffic("tangram", shown, captions).first(128)
        advice = advice_on(asked, qs.Tent(lr=3.0), None, {"guard": None})
        assert advice.verdict == "do not adapt"


class TestNames:
    def test_the_default_is_tuned_as_a_session(self, home):
        found = tune_files(
            "tangram", home / "pictures", home / "captions.txt", method="default", **FEW
        )
        assert found.method == "InfoMax"
        line = replace(found, best=found.trials[0]).line
        assert line.startswith("qs.Session(encoder, gallery, qs.InfoMax(lr=0.01,")
        assert line.endswith('hubs=qs.Hubs(), score_from="after")')

    def test_what_has_no_rate_is_refused(self, home):
        with pytest.raises(BadInput, match="nothing to tune"):
            tune_files("tangram", home / "pictures", home / "captions.txt", method="frozen+hubs")
        with pytest.raises(UnknownName, match='did you mean "default"'):
            tune_files("tangram", home / "pictures", home / "captions.txt", method="defualt")


class TestBadRows:
    def test_are_left_out_and_named(self, home, tmp_path):
        folder = tmp_path / "pictures"
        shutil.copytree(home / "pictures", folder)
        (folder / "broken.png").write_bytes(b"no picture")
        labels = json.loads((home / "labels.json").read_text()) | {"gone.png": ["x"]}
        (tmp_path / "labels.json").write_text(json.dumps(labels))
        given = ["--queries", str(folder), "--gallery", str(home / "captions.txt")]
        given += ["--labels", str(tmp_path / "labels.json"), "--rates", "1e-2"]
        command = ["tune", "tangram", *given, "--temperatures", "0.05"]
        ran = CliRunner().invoke(main, command, env=WIDE)
        assert ran.exit_code == 0, ran.output
        assert (
            "Left out of the queries, as they cannot be used: 1." in ran.output
            and "broken.png" in ran.output
        )
        assert (
            "Left out of the matches, as they cannot be used: 1." in ran.output
            and "gone.png" in ran.output
        )
        assert CliRunner().invoke(main, [*command, "--strict"]).exit_code == 2


@pytest.fixture(scope="module")
def captions():
    return [tangram.captions(scene)[0] for scene in tangram.scenes("dev", 256)]
