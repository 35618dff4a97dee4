"""As published: the fog of each dataset, and which source a result was run from."""

import re
from pathlib import Path

import pytest

from queryshift import __version__
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.corrupted_queries import corruption_of
from queryshift.lab.evaluation.runner.machine import versions

HOME = Path(__file__).parents[3]


@pytest.mark.parametrize(("dataset", "side"), [("coco", 1024), ("flickr", 512)])
def test_each_dataset_has_its_own_map_of_clouds(dataset, side):
    assert corruption_of(BENCHMARKS[f"{dataset}-o-image"], "fog").side == side


@pytest.mark.skipif(not (HOME / ".git").exists(), reason="no clone")
def test_a_result_says_which_source_it_ran_from():
    told = versions()["queryshift"]
    assert re.fullmatch(rf"{re.escape(__version__)}\+[0-9a-f]{{7,40}}(-dirty)?", told)
