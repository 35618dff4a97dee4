"""Streams closer to real traffic: what is asked often, and what is copied."""

import numpy as np

from queryshift.lab.datasets.stream_variants import COPIES, drawn_by_zipf, near_duplicates


def test_few_rows_are_most_of_the_traffic():
    rows = drawn_by_zipf(range(100), np.random.default_rng(0))
    counts = np.bincount(rows, minlength=100)
    assert len(rows) == 100
    assert counts[:10].sum() > 40 > 5 > counts[90:].sum()


def test_every_third_text_has_copies_without_some_words():
    texts = [f"text {row} has {'very ' * 20}many words" for row in range(6)]
    copies = near_duplicates(texts, np.random.default_rng(0))
    assert [row for row, _ in copies] == [0] * COPIES + [3] * COPIES
    for row, copy in copies:
        assert len(copy) < len(texts[row]) and set(copy.split()) <= set(texts[row].split())
