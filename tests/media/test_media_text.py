"""Texts are strings of bounded length; a batch without its bad items can be answered."""

import pickle

import numpy as np
import pytest

import queryshift as qs
from queryshift.errors import BadInput, BadItem
from queryshift.media.limits import Limits, limits, set_limits
from queryshift.media.text import texts


def test_a_text_of_megabytes_is_refused():
    long = "a star " * 640_000
    with pytest.raises(BadItem, match=r"item 1, a str: got 4,480,000 characters; .* cut it"):
        qs.load("tangram")["text"].encode(["a star", long])
    picture, edits = np.zeros((9, 9, 3), np.uint8), qs.load("tangram-edits")
    with pytest.raises(BadItem, match="item 0, a str: got 4,480,000 characters"):
        edits["image+text"].encode([(picture, long)])


def test_the_limit_can_be_set_and_put_back(limited):
    limited(characters=10)
    with pytest.raises(BadItem, match="got 10 characters; 10 or more are not read"):
        texts(["0123456789"])
    assert texts(["012345678"]) == ["012345678"]


def test_set_limits_gives_what_was_in_force():
    before = set_limits(Limits(pixels=5))
    assert limits().pixels == 5
    assert set_limits(before).pixels == 5
    assert limits() == before == Limits()


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(BadInput, match="the limit pixels is 0: expected a number above 0"):
        Limits(pixels=0)


def test_bad_items_can_be_left_out_one_after_another():
    encoder, items, left_out = qs.load("tangram")["text"], ["a", None, "b", 3, "c"], []
    kept = list(range(len(items)))
    while True:
        try:
            vectors = encoder.encode([items[place] for place in kept])
            break
        except BadItem as error:
            left_out.append((kept.pop(error.index), error.kind))
    assert left_out == [(1, "None"), (3, "an int")]
    assert len(vectors) == 3


def test_a_bad_item_survives_a_process_boundary():
    error = BadItem(3, "expected a text: a string.", "a float")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "item 3, a float: expected a text: a string."
    assert (again.index, again.reason, again.kind) == (3, "expected a text: a string.", "a float")
