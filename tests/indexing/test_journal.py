"""The journal of a build: what a kill cut off is gone, and one process has it at a time."""

import json

import pytest

from queryshift.errors import BadInput
from queryshift.indexing.journal import BadRow, Journal, Receipt


def receipt(shard: int) -> Receipt:
    return Receipt(shard, 10, (BadRow(f"bad {shard}", "it is empty."),))


def finished(folder) -> dict[int, Receipt]:
    kept = Journal(folder, "plan")
    kept.close()
    return kept.finished


def test_what_is_added_after_a_cut_line_can_be_read_again(tmp_path):
    kept = Journal(tmp_path, "plan")
    for shard in (0, 1):
        kept.add(receipt(shard))
    kept.close()
    file = tmp_path / "journal.jsonl"
    file.write_bytes(file.read_bytes()[:-5])
    kept = Journal(tmp_path, "plan")
    assert kept.finished == {0: receipt(0)}
    for shard in (2, 1):
        kept.add(receipt(shard))
    kept.close()
    assert finished(tmp_path) == {shard: receipt(shard) for shard in (0, 2, 1)}
    assert [json.loads(line).get("shard") for line in file.read_text().splitlines()] == [
        None,
        0,
        2,
        1,
    ]


def test_only_one_at_a_time_has_it(tmp_path):
    kept = Journal(tmp_path, "plan")
    kept.add(receipt(0))
    with pytest.raises(BadInput, match="another process is building"):
        Journal(tmp_path, "plan")
    kept.add(receipt(1))
    kept.close()
    assert finished(tmp_path) == {0: receipt(0), 1: receipt(1)}


def test_one_of_another_plan_is_refused_and_let_go_of(tmp_path):
    kept = Journal(tmp_path, "plan")
    kept.add(receipt(0))
    kept.close()
    with pytest.raises(BadInput, match="unfinished build of other items"):
        Journal(tmp_path, "other plan")
    assert finished(tmp_path) == {0: receipt(0)}
    Journal(tmp_path, "other plan", restart=True).close()
    assert finished(tmp_path) == {}
