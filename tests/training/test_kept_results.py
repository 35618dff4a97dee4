"""Pages made of kept runs show what those runs give."""

from pathlib import Path

import pytest
from training.comparison import guard_limits, hostile_table
from training.comparison.hostile_streams import STREAMS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


def test_the_page_on_hostile_streams_is_made_of_the_kept_runs():
    made = hostile_table.page(RESULTS / "hostile.jsonl")
    assert made == (ROOT / "docs" / "research" / "hostile-streams.md").read_text()


@pytest.mark.parametrize("method", ["rest", "tcr", "shot", "default"])
def test_every_hostile_stream_was_run_guarded_and_bare(method):
    runs = hostile_table.Runs.read(RESULTS / "hostile.jsonl", "test")
    for stream in STREAMS:
        found, seeds = runs.means(
            stream, hostile_table.FROZEN, (method, "bare"), (method, "guarded")
        )
        assert found and seeds, stream


def test_the_limits_of_a_guard_are_those_that_were_measured():
    page = (ROOT / "docs" / "research" / "guard-limits.md").read_text()
    assert guard_limits.table(RESULTS / "guard-limits.jsonl") in page
