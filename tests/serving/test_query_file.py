"""An operator's files of queries: bad lines are left out and logged, too many are refused."""

import json
import logging

import pytest

from queryshift.errors import BadFile
from queryshift.serving.samples import FileWorld, read_queries

GOOD = [json.dumps({"text": f"a red square, {place}"}) for place in range(9)]


def test_bad_lines_are_left_out_and_named(tmp_path, caplog):
    path = tmp_path / "ordinary.jsonl"
    path.write_text("\n".join([*GOOD[:4], json.dumps({"image": "x"}), *GOOD[4:]]))
    with caplog.at_level(logging.WARNING):
        assert len(read_queries(path, "text")) == 9
    assert "Left out of the queries of ordinary.jsonl" in caplog.text and "line 5" in caplog.text


def test_samples_leave_out_what_is_no_json(tmp_path, caplog):
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(["{no json", *GOOD, json.dumps({"image_file": "gone.png"})]))
    with caplog.at_level(logging.WARNING):
        found = FileWorld(path).samples(0, 20)
    assert [sample["id"] for sample in found] == list(range(9))
    assert "line 1: no query" in caplog.text and "line 11: no query" in caplog.text


def test_a_file_with_many_bad_lines_is_refused(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join([*GOOD[:7], "1", "2"]))
    with pytest.raises(BadFile, match=r"2 of 9 queries of samples\.jsonl cannot be used"):
        FileWorld(path)


def test_strict_stops_at_the_first_bad_line(tmp_path):
    path = tmp_path / "samples.jsonl"
    path.write_text('{"text": "a red square"}\n' * 9 + "no json\n")
    assert len(FileWorld(path).samples(0, 20)) == len(read_queries(path, "text")) == 9
    for read in (lambda: FileWorld(path, strict=True), lambda: read_queries(path, "text", True)):
        with pytest.raises(BadFile, match=r"queries of samples\.jsonl, line 10: no query"):
            read()
