"""The page on benchmarks gives the numbers that the code checks against."""

from pathlib import Path

from queryshift.lab.datasets import DATASETS

PAGE = (Path(__file__).parents[3] / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def told(counts):
    return ", ".join(f"{'-' if n is None else f'{n:,}'} {what}" for what, n in counts.items())


def test_the_page_has_the_papers_numbers():
    for name in DATASETS:
        assert told(DATASETS[name].paper) in PAGE


def test_the_page_has_every_way_to_ask():
    for name in DATASETS:
        assert f"| `{name}` | {', '.join(DATASETS[name].asks)} |" in PAGE
