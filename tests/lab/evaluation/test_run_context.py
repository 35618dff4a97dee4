"""What a process keeps between cells: so much of it, and only as long as the context."""

from dataclasses import replace

import pytest

from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.runner import context as module
from queryshift.lab.evaluation.runner.context import MODELS, RunContext
from queryshift.lab.evaluation.runner.plans import Choices

ROW = BENCHMARKS["tangram-o-image"]


@pytest.fixture
def loads(monkeypatch):
    """The names of the models that were loaded, in order."""
    names = []
    loaded = {"image": None, "text": None}
    monkeypatch.setattr(module, "load", lambda name, **given: names.append(name) or loaded)
    return names


def test_a_model_is_loaded_once_and_a_few_are_kept(loads):
    context = RunContext()
    for name in ("one", "two", "one", "two"):
        context.encoders(ROW, Choices(model=name))
    assert loads == ["one", "two"] and MODELS == 2
    context.encoders(ROW, Choices(model="one"))
    context.encoders(ROW, Choices(model="three"))  # in the place of "two", used longest ago
    context.encoders(ROW, Choices(model="one"))
    context.encoders(ROW, Choices(model="two"))
    assert loads == ["one", "two", "three", "two"]


def test_another_device_or_preprocessing_is_another_model(loads):
    context, choices = RunContext(), Choices(model="one")
    context.encoders(ROW, choices)
    context.encoders(ROW, replace(choices, preprocessing="published"))
    context.encoders(ROW, replace(choices, device="meta"))
    assert loads == ["one"] * 3


def test_two_contexts_share_nothing(loads):
    for _ in range(2):
        RunContext().encoders(ROW, Choices(model="one"))
    assert loads == ["one", "one"]


@pytest.mark.parametrize(
    ("name", "read_as"),
    [
        ("coco-o-image", "published"),
        ("general2nocaps-id-text", "published"),
        ("flickr8k-o-image", "library"),
        ("real-clip-image", "library"),
        ("aws-clean", "library"),
        ("tangram-o-text", "library"),
    ],
)
def test_only_the_papers_rows_are_read_as_published(name, read_as):
    assert Choices().preprocessing_for(BENCHMARKS[name]) == read_as
    assert Choices(preprocessing="library").preprocessing_for(BENCHMARKS[name]) == "library"
