"""Courtesies around a request."""

import numpy as np

from queryshift.lab.corruptions.text.chatty import chatty


def test_courtesies_around_a_request():
    made = chatty("list zones", 1, np.random.default_rng(0))
    assert made.startswith("hi team please") and " list zones thanks " in made
