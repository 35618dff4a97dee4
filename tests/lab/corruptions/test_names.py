"""The tables of names agree with what computes, and can be read without it."""

import subprocess
import sys

import pytest

from queryshift.errors import UnknownName
from queryshift.lab.corruptions import (
    COMBINATIONS,
    MODALITIES,
    NAMES,
    REPRESENTATIVE,
    combination,
    families,
    find,
)
from queryshift.lab.corruptions.names import by_category

COUNTS = {"image": 16, "text": 15, "video": 12, "audio": 6}


@pytest.mark.parametrize("modality", MODALITIES)
class TestEveryModality:
    def test_names_agree_with_families(self, modality):
        named = {
            category: tuple(corruption.__name__ for corruption in family)
            for category, family in families(modality).items()
        }
        assert named == NAMES[modality]

    def test_every_name_is_found(self, modality):
        names = [name for family in by_category(modality).values() for name in family]
        assert [find(modality, name).__name__ for name in names] == names

    def test_there_are_as_many_as_in_the_paper(self, modality):
        names = [name for family in NAMES[modality].values() for name in family]
        assert len(set(names)) == len(names) == COUNTS[modality]

    def test_every_category_has_a_representative(self, modality):
        assert REPRESENTATIVE[modality].keys() == NAMES[modality].keys()
        for category, name in REPRESENTATIVE[modality].items():
            assert name in NAMES[modality][category]
            assert find(modality, name).__name__ == name

    def test_a_misspelt_name_is_met_with_the_nearest(self, modality):
        name = next(iter(NAMES[modality].values()))[0]
        with pytest.raises(UnknownName, match=f'no {modality} corruption .* did you mean "{name}"'):
            find(modality, name + "x")


@pytest.mark.parametrize(
    ("modality", "name", "expected"),
    [
        ("video", "noise+blur", "segments(gaussian_noise, motion_blur)"),
        ("video", "noise+digital", "segments(gaussian_noise, jpeg)"),
        ("video", "blur+digital", "segments(motion_blur, jpeg)"),
        ("video", "noise+blur+digital", "segments(gaussian_noise, motion_blur, jpeg)"),
        ("audio", "noise+weather", "segments(traffic, wind)"),
        ("image+text", "noise+character", "both(gaussian_noise, ocr)"),
        ("image+text", "weather+sentence", "both(fog, backtranslation)"),
    ],
)
def test_combinations_are_the_papers(modality, name, expected):
    assert combination(modality, name).__name__ == expected


def test_composed_queries_have_four_by_three_combinations():
    made = [combination("image+text", name).__name__ for name in COMBINATIONS["image+text"]]
    assert len(set(made)) == 12


def test_unknown_modalities_and_combinations_are_named():
    with pytest.raises(UnknownName, match='no modality "vidio"; did you mean "video"'):
        families("vidio")
    with pytest.raises(UnknownName, match="no modality with combinations"):
        combination("text", "noise+blur")
    with pytest.raises(UnknownName, match="no video combination"):
        combination("video", "noise+weather")


def test_names_are_read_without_numpy_or_opencv():
    code = (
        "import sys, queryshift.lab.corruptions as c; c.NAMES, c.COMBINATIONS;"
        "print({'numpy', 'cv2', 'PIL', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
