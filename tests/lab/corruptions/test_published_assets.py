"""Rows with what a user brings: style models, photographs of frost, the filter on similarity."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from test_sentence_models import save_judge, style_model  # noqa: F401  (a fixture)

from queryshift.errors import BadFile
from queryshift.lab.corruptions import find, generator
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.corrupted_queries import CorruptionAssets, corruption_of, substitutes

CAPTION = "a small red circle left of a large blue square"
TEXT, PICTURES = BENCHMARKS["coco-o-text"], BENCHMARKS["coco-o-image"]


def test_styles_are_written_by_the_models(style_model, tmp_path):  # noqa: F811
    for name in ("formal", "passive"):
        (tmp_path / name).symlink_to(style_model)
    save_judge(tmp_path / "adequacy", opinion=9.0)
    brought = CorruptionAssets(styles=tmp_path)
    for name in ("formal", "passive"):
        written = corruption_of(TEXT, name, brought)(CAPTION, 5, generator(0, "caption", "test"))
        assert written != find("text", name)(CAPTION, 5, generator(0, "caption", "test"))


def test_a_missing_style_model_is_named(tmp_path):
    with pytest.raises(BadFile, match=r'no folder "formal" in .* formal, casual, passive, active'):
        corruption_of(TEXT, "formal", CorruptionAssets(styles=tmp_path))


def test_frost_is_of_the_photographs(tmp_path):
    for number in range(5):
        Image.new("RGB", (600, 400), (255, 0, 0)).save(tmp_path / f"frost{number}.png")
    picture = np.zeros((64, 64, 3), np.uint8)
    brought = corruption_of(PICTURES, "frost", CorruptionAssets(textures=tmp_path))
    drawn = corruption_of(PICTURES, "frost")
    made = np.asarray(brought(picture, 5, generator(0, "one", "test")), float).mean((0, 1))
    assert sorted(made)[:2] == [0, 0] and max(made) > 100  # one channel only: the photograph's
    assert np.asarray(drawn(picture, 5, generator(0, "one", "test")), float).mean((0, 1)).min() > 10


@pytest.mark.parametrize(("name", "filtered"), [("word_deletion", True), ("ocr", False)])
def test_words_are_filtered_by_similarity_and_characters_are_not(name, filtered):
    made = corruption_of(TEXT, name, CorruptionAssets(similarity="tangram"))
    assert made.__name__.startswith("similar(") == filtered
    assert isinstance(made(CAPTION, 3, generator(0, "caption", "test")), str)


def test_what_is_not_as_published_is_said():
    everything = CorruptionAssets(noise=".", textures=".", styles=".", similarity="tangram")
    for row in BENCHMARKS.values():
        for shift in row.shifts:
            assert substitutes(row, shift, everything) == ()
            if not row.on_disk:
                assert substitutes(row, shift, CorruptionAssets()) == ()
    assert substitutes(PICTURES, "frost", CorruptionAssets()) == ("drawn frost (--textures)",)
    assert substitutes(PICTURES, "fog", CorruptionAssets()) == ()
    assert substitutes(TEXT, "ocr", CorruptionAssets()) == ()
    assert substitutes(TEXT, "word_swap", CorruptionAssets()) == (
        "no similarity filter (--similarity)",
    )
    assert len(substitutes(TEXT, "formal", CorruptionAssets())) == 2
    assert len(substitutes(BENCHMARKS["coco-d-text"], "", CorruptionAssets())) == 2
    assert substitutes(replace(TEXT, as_published=False), "formal", CorruptionAssets()) == ()
    assert substitutes(BENCHMARKS["audioset-d-audio"], "", CorruptionAssets())
