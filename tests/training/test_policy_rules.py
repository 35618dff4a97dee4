"""The policy note on the default without each of its rules shows what the kept runs give."""

import gzip
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean

import pytest
from training.comparison.hostile_streams import STREAMS
from training.comparison.without_rules import NAMES
from training.real.streams import streams

from queryshift.lab.evaluation.results import decode

NOTES = Path(__file__).parents[2] / "docs" / "research"
PAGE = (NOTES / "policy.md").read_text(encoding="utf-8")
DEFAULT, RATE = "default", "rate not times the uncertainty"
LABELS = {
    DEFAULT: "nothing (the default)",
    "frozen": "everything: the source model answers alone",
    "always uncertain": "uncertainty: it is always 1",
    "coincidence does not lower the uncertainty": "uncertainty: coincident top-1 results",
    "repeats teach and count": "uncertainty: repeats count once",
    RATE: "rate times the uncertainty",
    "rate does not fall": "falling rate",
    "every step sees the whole batch": "smaller steps: each learns from the whole batch",
    "hub correction may crowd": "hub correction must not crowd",
    "batches without spread teach": "least spread",
    "two different queries teach": "ten different queries",
    "collapse is not looked for": "collapse",
    "the rate of the first batch": "the encoder's rate: the first batch finds it",
    "no hub correction": "hub correction",
    "weight at most 1": "weight at most 0.6: at most 1",
    "weight at most 0.5": "weight at most 0.6: at most 0.5",
}
KINDS = (  # columns: a kind of stream and a part of it
    *(("online", ""), ("zipf", ""), ("few", ""), ("half", "shifted"), ("half", "clean")),
    *(("tenth", "shifted"), ("tenth", "clean"), ("sorted", ""), ("sorted", "after")),
    *(("noise", "during"), ("noise", "after"), ("clean", "")),
)
OTHER_RULES = ("always uncertain", "no hub correction", "weight at most 1")
RECALLS, PARTS = ("frozen", DEFAULT), ("recall", "after", "after, adapting")
TEXT = ("clean", "chatty", "typos 10 %", "half", "zipf")


def lines(name):
    return gzip.decompress((NOTES / name).read_bytes()).decode().splitlines()


def signed(points, places=1):
    """A difference with its sign; zero has none."""
    text = f"{points:+.{places}f}"
    return text if float(text) else text[1:]


def told(rule, cells):
    """Whether the note has the row."""
    return f"| {LABELS[rule]} | {' | '.join(cells)} |\n" in PAGE


@pytest.fixture(scope="module")
def tangram():
    """Recall by rule and column, then by stream."""
    found = defaultdict(dict)
    for one in map(json.loads, lines("policy-rules.jsonl.gz")):
        for part, recall in one["recall"].items():
            stream = one["task"], one["shift"], one["severity"]
            found[one["variant"], (one["kind"], part)][stream] = recall
    return found


@pytest.mark.parametrize("rule", [DEFAULT, *NAMES])
def test_streams_of_tangram_are_as_measured(tangram, rule):
    cells = []
    for kind in KINDS:
        own, base = tangram[rule, kind], tangram[DEFAULT, kind]
        differences = [own[stream] - base[stream] for stream in base]
        cell = signed(mean(differences)) if any(differences) else ""
        cells.append(f"{mean(base.values()):.1f}" if rule == DEFAULT else cell)
    assert told(rule, cells)


@pytest.fixture(scope="module")
def text():
    """All rows of each stream of real text."""
    cells = map(decode, lines("policy-rules-text.jsonl.gz"))
    return {stream.name: stream for stream in streams(list(cells), "aws-dev")}


def text_cell(stream, rule):
    """The difference of a rule; bold beyond chance, empty if no right answer has another rank."""
    ranks = {cell.method: cell.ranks.tolist() for cell in stream.cells}
    if ranks[rule] == ranks[DEFAULT]:
        return ""
    found = stream.difference(rule, DEFAULT)
    bold = "**" if found.beyond_chance else ""
    return f"{bold}{signed(found.points)}{bold}"


def test_streams_of_real_text_are_as_measured(text):
    assert tuple(text) == TEXT and all(stream.queries == 512 for stream in text.values())
    for rule in text["clean"].rows:
        own = [text_cell(stream, rule) for stream in text.values()]
        base = [f"{stream.measure(DEFAULT):.1f}" for stream in text.values()]
        assert told(rule, base if rule == DEFAULT else own), rule


@pytest.fixture(scope="module")
def hostile():
    """Runs by stream and its number of batches, then by method, one for each seed."""
    found = defaultdict(lambda: defaultdict(list))
    for one in map(json.loads, lines("policy-rules-hostile.jsonl.gz")):
        found[one["stream"], one["batches"]][one["method"]].append(one)
    return found


def difference(runs, rule, part="recall"):
    """The default without a rule less the default, the mean over the seeds."""
    own, base = ({one["seed"]: one[part] for one in runs[name]} for name in (rule, DEFAULT))
    return mean(own[seed] - base[seed] for seed in own)


def test_hostile_streams_without_the_rate_rule_are_as_measured(hostile):
    assert {stream for stream, _ in hostile} == set(STREAMS)
    for (stream, batches), runs in hostile.items():
        recalls = [f"{mean(one['recall'] for one in runs[name]):.2f}" for name in RECALLS]
        found = [signed(difference(runs, RATE, part), 2) for part in PARTS]
        cells = [stream, str(batches), str(len(runs[RATE])), *recalls, *found]
        assert f"| {' | '.join(cells)} |\n" in PAGE, cells


def test_the_largest_losses_on_hostile_streams_are_as_measured(hostile):
    worst = {
        rule: -min(
            own[part] - frozen[part]
            for runs in hostile.values()
            for own, frozen in zip(runs[rule], runs["frozen"], strict=True)
            for part in PARTS
        )
        for rule in (RATE, DEFAULT)
    }
    told = f"no run is more than {worst[RATE]:.2f} points below frozen"
    assert told in PAGE and f"with it, {worst[DEFAULT]:.2f}." in PAGE


@pytest.mark.parametrize("rule", OTHER_RULES)
def test_hostile_streams_without_other_rules_are_as_measured(hostile, rule):
    columns = [runs for runs in hostile.values() if rule in runs]
    pairs = [[signed(difference(runs, rule, part)) for part in PARTS[:2]] for runs in columns]
    assert columns and told(rule, ["; ".join(pair) for pair in pairs])
