"""The policy note on hostile streams and clean traffic shows what the kept runs give."""

import gzip
import json
from pathlib import Path
from statistics import mean, stdev

import pytest
from training.comparison.hostile_streams import STREAMS

from queryshift.lab.datasets.tangram import TASKS

NOTES = Path(__file__).parents[2] / "docs" / "research"
PAGE = (NOTES / "policy.md").read_text(encoding="utf-8")
SEEDS, GOAL = (0, 1, 2), 0.9  # of the bare session's gain
DEFAULT, UNWEIGHTED, SOURCE = "default", "sessions.policy:MOST=0", 'mode="shadow"'
BATCHES = (1, 8, 64)
STUDENT = {10: 2.262, 9: 2.306}  # 97.5 % quantile of Student's t for the mean of so many seeds


def lines(name):
    text = gzip.decompress((NOTES / name).read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def hostile():
    """Frozen, bare and guarded run of each stream and seed."""
    kept = lines("policy-hostile.jsonl.gz")
    found = {(one["stream"], one["method"], one["guard"], one["seed"]): one for one in kept}
    runs = (("frozen", "bare"), ("default", "bare"), ("default", "guarded"))
    return {
        (stream, seed): [found[stream, *run, seed] for run in runs]
        for stream in STREAMS
        for seed in SEEDS
    }


def share(frozen, bare, guarded):
    """The guarded session's gain over the bare one's; None where that one gains nothing."""
    gain = bare["recall"] - frozen["recall"]
    return (guarded["recall"] - frozen["recall"]) / gain if gain > 0 else None


def row_of(hostile, stream):
    of_seeds = [hostile[stream, seed] for seed in SEEDS]
    recalls = (" / ".join(f"{run[at]['recall']:.1f}" for run in of_seeds) for at in range(3))
    shares = (share(*runs) for runs in of_seeds)
    kept = " / ".join("–" if one is None else f"{100 * one:.0f}" for one in shares)
    worst = (min(run[at]["after"] - run[0]["after"] for run in of_seeds) for at in (1, 2))
    return f"| {' | '.join([stream, *recalls, kept, *(f'{one:+.1f}' for one in worst)])} |"


@pytest.mark.parametrize("stream", STREAMS)
def test_hostile_streams_are_as_measured(hostile, stream):
    assert row_of(hostile, stream) in PAGE


def test_what_is_said_of_hostile_streams_holds(hostile):
    shares = [one for runs in hostile.values() if (one := share(*runs)) is not None]
    told = f"in {len(shares)} of {len(hostile)} runs. The guarded session keeps at least "
    assert f"{told}{100 * min(shares):.1f} % of that gain" in PAGE and min(shares) >= GOAL
    parts = ("recall", "after", "after, adapting")
    below = max(
        frozen[part] - guarded[part] for frozen, _, guarded in hostile.values() for part in parts
    )
    assert f"No guarded run is more than {below:.2f} points below frozen" in PAGE


@pytest.fixture(scope="module")
def clean():
    """Recall by batch, variant, task and seed; the source's results are the same in any batch."""
    kept = lines("policy-clean.jsonl.gz")
    return {
        (batch, one["variant"], one["task"], one["seed"]): one["recall"][""]
        for one in kept
        for batch in (BATCHES if one["variant"] == SOURCE else (one["batch"],))
    }


def streams(clean, batch, row, other):
    """A row less another in each stream, by seed and task."""
    return {
        (seed, task): clean[batch, row, task, seed] - clean[batch, other, task, seed]
        for seed in range(10)
        for task in TASKS
        if {(batch, row, task, seed), (batch, other, task, seed)} <= set(clean)
    }


def differences(clean, batch, other):
    """The default less another in each seed that has all tasks: the mean over the tasks."""
    found = streams(clean, batch, DEFAULT, other)
    seeds = [seed for seed in range(10) if all((seed, task) in found for task in TASKS)]
    return [mean(found[seed, task] for task in TASKS) for seed in seeds]


def told(values):
    half = STUDENT[len(values)] * stdev(values) / len(values) ** 0.5
    low, high = mean(values) - half, mean(values) + half
    return f"{mean(values):+.2f} ({low:+.2f} to {high:+.2f})"


@pytest.mark.parametrize("batch", BATCHES)
def test_clean_traffic_is_as_measured(clean, batch):
    source, unweighted = (differences(clean, batch, other) for other in (SOURCE, UNWEIGHTED))
    cells = [batch, len(source), told(source)]
    cells.append("the same session" if batch == 1 else told(unweighted))
    assert f"| {' | '.join(map(str, cells))} |" in PAGE
    assert batch != 1 or not any(unweighted)


def test_what_is_said_of_clean_traffic_holds(clean):
    worst = min(min(streams(clean, batch, DEFAULT, SOURCE).values()) for batch in BATCHES)
    assert f"No stream is more than {-worst:.1f} points below the source" in PAGE
    found = streams(clean, 64, UNWEIGHTED, SOURCE).values()
    others = [abs(one) for one in found if abs(one) > 0.01]
    assert f"in {len(others)} of {len(found)} streams, by up to {max(others):.1f} points" in PAGE
