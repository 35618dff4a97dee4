"""Requests as people type them: the share of letters that change, in any script."""

import numpy as np
import pytest
from edit_distance import edit_distance

from queryshift.errors import BadInput
from queryshift.lab.corruptions import NAMES, corrupt, find, generator
from queryshift.lab.corruptions.text.chatty import chatty
from queryshift.lab.corruptions.text.typing_errors import RATES, half_typos, typos

LONG = "well architected tool list workload shares " * 50


@pytest.mark.parametrize(("severity", "share"), list(enumerate(RATES, start=1)))
def test_a_share_of_the_letters_is_mistyped(severity, share):
    made = typos(LONG, severity, np.random.default_rng(0))
    letters = sum(map(str.isalpha, LONG))
    assert (
        share * 0.7 < edit_distance(LONG, made) / letters < share * 1.2
    )  # a letter may replace itself
    assert made.count(" ") == LONG.count(" ")


@pytest.mark.parametrize(
    ("text", "alphabet"),
    [
        ("Как найти товары в каталоге", "а-я"),
        ("πώς να βρω προϊόντα στον κατάλογο", "α-ω"),
        ("Größe und Übersicht der Straße", "a-z"),
        ("東京の天気を教えて", "its own"),
        ("", "nothing"),
        ("12 + 7", "nothing"),
    ],
)
def test_letters_of_other_scripts_stay_in_them(text, alphabet):
    made = typos(text * 20, 5, np.random.default_rng(1))
    new = {letter for letter in made if letter not in text}
    ranges = {"а-я": ("а", "я"), "α-ω": ("α", "ω"), "a-z": ("a", "z")}
    low, high = ranges.get(alphabet, ("~", " "))
    assert all(low <= letter <= high for letter in new)
    assert (made == text * 20) == (alphabet == "nothing")


def test_nothing_becomes_empty():
    assert all(typos("a", 5, np.random.default_rng(seed)) for seed in range(40))


def test_half_of_the_queries_stay_as_they_are():
    made = [half_typos(LONG, 5, generator(0, item, "half", 5)) for item in range(400)]
    assert 160 < sum(one == LONG for one in made) < 240


def test_they_are_found_by_name_and_are_not_the_papers():
    papers = [name for family in NAMES["text"].values() for name in family]
    for corruption in (typos, half_typos, chatty):
        assert find("text", corruption.__name__) is corruption
        assert corruption.__name__ not in papers
    one, again = (corrupt(LONG, typos, 2, seed=3, item_id="7") for _ in range(2))
    assert one == again != corrupt(LONG, typos, 2, seed=4, item_id="7")


@pytest.mark.parametrize("corruption", [typos, half_typos, chatty])
def test_what_is_no_text_is_refused(corruption):
    for seed in range(4):  # half of the queries are not looked at letter by letter
        with pytest.raises(BadInput, match="a caption is a str"):
            corruption(7, 1, np.random.default_rng(seed))
    with pytest.raises(BadInput, match="severity is 6"):
        chatty("a", 6, np.random.default_rng(0))
