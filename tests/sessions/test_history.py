"""A history in files: exact columns, and what is refused."""

import json
from dataclasses import replace

import pytest

from miniature import same
from queryshift.sessions.batch_stats import BatchStats
from queryshift.sessions.history import packed_history, unpacked_history


def long_history(count: int) -> list[BatchStats]:
    """Measures as sessions have them: some always there, some never, some now and then."""
    one = BatchStats(1, 64, True, 0.5, 0.25, 0.125, 0.75, 1.5, None)
    return [
        replace(
            one, batch=n, drift=n / 3 if n % 2 else None, restart="why" if n % 99 == 7 else None
        )
        for n in range(count)
    ]


def test_columns_are_exact():
    history = [
        *long_history(120),
        replace(long_history(1)[0], gap=float("nan"), drift=float("inf"), adapted=False),
    ]
    tensors = {}
    about = json.loads(json.dumps(packed_history(map(vars, history), tensors)))
    assert same(unpacked_history(about, tensors), history)
    assert "history.reliable" not in tensors  # None throughout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"other": 1}, "a batch has no measure other"),
        ({"queries": "12"}, "history.queries holds something other than int"),
        ({"queries": [12]}, "something other than int|inhomogeneous"),
        ({"adapted": 1.5}, "history.adapted holds something other than bool"),
        ({"gap": "wide"}, "history.gap holds something other than float"),
    ],
)
def test_what_no_batch_measures_is_refused(change, said):
    first, second = map(vars, long_history(2))
    with pytest.raises(ValueError, match=said):
        packed_history([first, {**second, **change}], {})


def test_a_measure_that_only_some_batches_have_is_refused():
    first, second = (dict(vars(one)) for one in long_history(2))
    del second["queries"]
    with pytest.raises(KeyError, match="queries"):
        packed_history([first, second], {})


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda about, tensors: about.update(rows=-1), "the history has -1 rows"),
        (lambda about, tensors: about.update(rows=True), "the history has True rows"),
        (
            lambda about, tensors: tensors.update(
                {"history.queries": tensors["history.queries"].float()}
            ),
            "history.queries is not a column of 9 numbers",
        ),
        (
            lambda about, tensors: tensors.update(
                {"history.drift.none": tensors["history.drift.none"][:-1]}
            ),
            "history.drift.none is not a column of 9 marks",
        ),
        (
            lambda about, tensors: tensors.update(
                {"history.drift.none": tensors["history.drift.none"].long()}
            ),
            "history.drift.none is not a column of 9 marks",
        ),
    ],
)
def test_damaged_columns_are_refused(damage, said):
    tensors = {}
    about = packed_history(map(vars, long_history(9)), tensors)
    damage(about, tensors)
    with pytest.raises(ValueError, match=said):
        unpacked_history(about, tensors)


def test_a_measure_that_a_file_must_have_is_missed():
    tensors = {}
    about = packed_history(map(vars, long_history(2)), tensors)
    del tensors["history.queries"]
    with pytest.raises(KeyError, match="queries"):
        unpacked_history(about, tensors)


def test_no_history_is_a_history():
    assert unpacked_history(packed_history([], {}), {}) == []
