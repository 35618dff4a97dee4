"""The page's tables of the verdict without labels are what the kept measurements give."""

from pathlib import Path

import pytest
from training.comparison.verdict import (
    DOMAINS,
    TEXT,
    agreement,
    cases,
    domain_of,
    effect,
    kept,
    left_out,
    verdict_of,
)

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "research" / "label-free-verdict.md").read_text(encoding="utf-8")
ROWS = kept(DOCS / "results" / "verdict.jsonl.gz")
TEST = [row for row in ROWS if row["split"] == "test"]


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_page_shows_what_was_measured(domain):
    rows = [row for row in TEST if domain_of(row) == domain]
    title = f"{domain.capitalize()}, {len(rows)} streams:"
    assert f"{title}\n\n" + "\n".join(agreement(rows)) in PAGE


def test_the_page_shows_limits_from_other_domains_and_streams_of_other_services():
    assert "\n".join(left_out(TEST)) in PAGE
    dev = [row for row in ROWS if row["split"] == "dev"]
    assert "\n".join(agreement(dev)) in PAGE and f"{len(dev)} streams of other services" in PAGE


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_stream_that_is_not_helped_is_called_adapt(domain):
    told = [row for row in ROWS if domain_of(row) == domain and verdict_of(row) == "adapt"]
    assert told and {effect(row) for row in told} == {"helped"}


def test_streams_of_text_are_all_there_to_be_measured_again():
    keys = {case.key for case in cases(TEXT, "test")}
    assert keys == {row["key"] for row in TEST if row["task"] == TEXT}


def test_development_streams_are_none_of_those_reported():
    for task in ("image", "text"):
        dev, reported = ({case.shift for case in cases(task, split)} for split in ("dev", "test"))
        assert dev & reported == {"clean"}
