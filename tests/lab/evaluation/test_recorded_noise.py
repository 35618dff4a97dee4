"""Runs on sounds with recordings of noise in the place of synthetic ones."""

from dataclasses import replace

import numpy as np
import pytest
import soundfile

from queryshift.errors import BadFile, BadInput
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.runner.context import RunContext
from queryshift.lab.evaluation.runner.plans import Choices, Plan, Task, plans_for
from queryshift.lab.evaluation.runner.prepared_benchmark import prepare
from queryshift.lab.evaluation.runner.resume import run_all
from small_datasets import WRITERS

ROW = BENCHMARKS["audioset-o-audio"]
SHIFT = ROW.shifts[0]  # traffic, then wind


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    root = WRITERS["audioset"](tmp_path_factory.mktemp("audioset"))
    choices = Choices(model="tangram-clips", root=root, preprocessing="library")
    return Plan(row=ROW, methods=("frozen",), choices=choices)


@pytest.fixture
def noise(tmp_path):
    folder = tmp_path / "noise"
    folder.mkdir()
    for name in ("traffic", "wind"):
        soundfile.write(folder / f"{name}.wav", np.resize([0.1, 0.1, -0.1, -0.1], 32_000), 16_000)
    return folder


def test_queries_are_the_clean_ones_and_the_recording(plan, noise, tmp_path):
    choices = replace(plan.choices, noise=noise)
    context = RunContext()
    prepared = prepare(ROW, choices, tmp_path, context)
    part, task = prepared.parts[0], Task(SHIFT, 1, 0, "frozen")
    clean = part.dataset.queries[0]
    made = context.queries(prepared, part, task)[0]
    added = np.asarray(made.samples, float) - np.asarray(clean.samples, float)
    assert clean.rate == 16_000
    assert abs(added) == pytest.approx(0.1 * 10 ** (1 / 20), abs=1e-3)  # READ's at severity 1


def test_results_of_other_noise_do_not_share_a_file(plan, noise, tmp_path):
    recorded = replace(plan, choices=replace(plan.choices, noise=noise))
    (cell,) = run_all([recorded], tmp_path / "runs").cells
    assert cell.settings["noise"] == str(noise)
    with pytest.raises(BadInput, match=r"noise was '.*noise', is None"):
        run_all([plan], tmp_path / "runs")


def test_a_recording_that_is_not_there_is_named(plan, noise, tmp_path):
    (noise / "wind.wav").unlink()
    recorded = replace(plan, choices=replace(plan.choices, noise=noise))
    with pytest.raises((BadInput, BadFile), match="wind"):
        run_all([recorded], tmp_path / "runs")


def test_rows_without_sounds_take_none(plan, noise):
    recorded = replace(plan, choices=replace(plan.choices, noise=noise))
    assert len(plans_for("audioset-o", recorded)) == 2
    with pytest.raises(BadInput, match="coco-o corrupts no audio"):
        plans_for("coco-o", recorded)
