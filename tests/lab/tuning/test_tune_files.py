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
from queryshift.lab.tuning.tune_files import Named, advice_on, tune_files
from queryshift.lab.tuning.tune_files import read_items as read_items_into
from queryshift.lab.tuning.tune_files import read_labels as read_labels_into
from queryshift.media.bad_rows import BadRows

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


def read_items(path):
    return read_items_into(path, BadRows("items", strict=True))


def read_labels(*given):
    return read_labels_into(*given, BadRows("labels", strict=True))


def asked(home, *more):
    given = ["--queries", str(home / "pictures"), "--gallery", str(home / "captions.txt")]
    return CliRunner().invoke(
        main, ["tune", "tangram", *given, "--temperatures", "0.05", *more], env=WIDE
    )


class TestItems:
    def test_of_a_folder_of_pictures_are_in_the_order_of_their_names(self, home):
        found = read_items(home / "pictures")
        assert found.modality == "image"
        assert found.names[:2] == ("00.png", "01.png")
        assert len(found.items) == COUNT

    def test_of_a_file_are_its_captions(self, home):
        found = read_items(home / "captions.txt")
        assert (found.modality, len(found.items)) == ("text", COUNT)
        assert found.names == found.items

    def test_of_a_folder_of_sounds(self, tmp_path):
        for name in ("b", "a"):
            soundfile.write(tmp_path / f"{name}.wav", np.zeros(800, np.float32), 8000)
        found = read_items(tmp_path)
        assert (found.modality, found.names) == ("audio", ("a.wav", "b.wav"))
        assert found.items[0].rate == 8000

    def test_that_cannot_be_told_are_refused(self, home, tmp_path):
        with pytest.raises(BadInput, match="no file or folder"):
            read_items(tmp_path / "absent")
        with pytest.raises(BadInput, match="0 of image and 0 of audio"):
            read_items(tmp_path)
        with pytest.raises(BadInput, match="is one file"):
            read_items(home / "pictures" / "00.png")
        Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
        soundfile.write(tmp_path / "a.wav", np.zeros(8), 8000)
        with pytest.raises(BadInput, match="1 of image and 1 of audio"):
            read_items(tmp_path)
        (tmp_path / "empty.txt").write_text("\n\n")
        with pytest.raises(BadFile, match="holds no captions"):
            read_items(tmp_path / "empty.txt")


class TestLabels:
    def test_become_positions_of_every_candidate_of_that_name(self, tmp_path):
        (tmp_path / "l.json").write_text('{"b": ["x", "y"], "a": []}')
        assert read_labels(tmp_path / "l.json", ["a", "b", "c"], ["x", "y", "x"]) == [
            [],
            [0, 2, 1],
            [],
        ]

    @pytest.mark.parametrize(
        ("text", "error", "says"),
        [
            ('{"z": ["x"]}', UnknownName, 'no query "z"'),
            ('{"a": ["z"]}', UnknownName, 'no candidate "z"'),
            ('["a"]', BadFile, "holds no labels"),
            ("{", BadFile, "cannot be read as labels"),
        ],
    )
    def test_that_fit_nothing_are_refused(self, tmp_path, text, error, says):
        (tmp_path / "l.json").write_text(text)
        with pytest.raises(error, match=says):
            read_labels(tmp_path / "l.json", ["a"], ["x"])


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
        with pytest.raises(BadInput, match='"tangram-clips" has no encoder for image'):
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
        assert "cannot be read as labels" in ran.output


class TestWithoutLabels:
    def test_a_rate_that_breaks_the_model_is_not_advised(self, encoders_of_tangram, captions):
        queries = Named("text", tuple(captions[:128]), tuple(captions[:128]))
        text, gallery = encoders_of_tangram
        advice = advice_on(text, gallery, queries, qs.Tent(lr=3.0), None, {"guard": None})
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
            "Left out of the labels, as they cannot be used: 1." in ran.output
            and "gone.png" in ran.output
        )
        assert CliRunner().invoke(main, [*command, "--strict"]).exit_code == 2


@pytest.fixture(scope="module")
def captions():
    return [tangram.captions(scene)[0] for scene in tangram.scenes("dev", 256)]


@pytest.fixture(scope="module")
def encoders_of_tangram(captions):
    model = qs.load("tangram")
    shown = [scene.image() for scene in tangram.scenes("dev", 256)]
    return model["text"], qs.Gallery.build(model["image"], shown)
