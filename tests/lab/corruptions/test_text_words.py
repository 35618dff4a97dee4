"""Word-level text corruptions, and the WordNet table behind the synonyms."""

from collections import Counter
from importlib.resources import files
from statistics import fmean

import pytest
from numpy.random import default_rng
from photo_captions import WRITTEN, generated

from queryshift.lab.corruptions import text
from queryshift.lab.corruptions.text import wordnet
from queryshift.lab.corruptions.text.caption_words import split_words
from queryshift.lab.corruptions.text.published import letters_only

CAPTION = "A young man is riding a big wave, near two Dogs."
WORD = {corruption.__name__: corruption for corruption in text.FAMILIES["word"]}


def corrupted(name, caption=CAPTION, severity=5, seed=0):
    return WORD[name](caption, severity, default_rng(seed))


class TestSynonyms:
    def test_forms_find_their_lemma(self):
        assert "ride" in wordnet.every_synonym("riding")
        assert "foot" in wordnet.every_synonym("feet")  # an exception
        assert "child" in wordnet.every_synonym("children")
        assert "large" in wordnet.every_synonym("bigger")
        assert wordnet.every_synonym("xyzzy") == ()

    def test_close_ones_have_the_form_of_the_word(self):
        assert wordnet.close_synonyms("jumps") == ("leaps", "bounds", "springs")
        assert wordnet.close_synonyms("jumping") == ("leaping", "bounding", "springing")
        assert "kids" in wordnet.close_synonyms("children")

    def test_close_ones_are_of_the_commonest_part_of_speech(self):
        assert wordnet.close_synonyms("building") == ("edifice",)
        assert wordnet.close_synonyms("dog") == ("domestic dog",)
        assert "chase" in wordnet.every_synonym("dog")

    def test_close_ones_hold_no_names_and_no_numerals(self):
        assert "brigham young" in wordnet.every_synonym("young")
        assert wordnet.close_synonyms("young") == ("immature",)
        assert wordnet.close_synonyms("two") == ()  # not "ii"

    def test_words_without_a_meaning_of_their_own_have_no_close_ones(self):
        assert wordnet.close_synonyms("a") == ()
        assert "angstrom" in wordnet.every_synonym("a")

    def test_the_table_comes_with_its_licence(self):
        notice = (
            files("queryshift.lab.corruptions.data").joinpath("LICENSE-WORDNET.txt").read_text()
        )
        assert "WordNet 3.0 Copyright 2006 by Princeton University" in notice


class TestSynonymReplacement:
    def test_replaces_as_many_words_as_the_rate_says(self):
        for severity, count in ((1, 1), (5, 3)):
            before, after = CAPTION.split(), corrupted("synonym_replacement", severity=severity)
            kept = Counter(before) & Counter(after.split())
            assert len(before) - sum(kept.values()) == count

    def test_keeps_case_and_punctuation(self):
        changed = {corrupted("synonym_replacement", "Jumps, jumps!", seed=s) for s in range(20)}
        assert changed == {"Leaps, leaps!", "Bounds, bounds!", "Springs, springs!"}

    def test_a_caption_without_synonyms_stays(self):
        assert corrupted("synonym_replacement", "the xyzzy of it") == "the xyzzy of it"


def test_insertion_adds_synonyms_of_words_that_are_there():
    known = {w for word in CAPTION.lower().split() for w in wordnet.close_synonyms(word.strip(","))}
    before, after = CAPTION.split(), corrupted("word_insertion", severity=1).split()
    added = Counter(after) - Counter(before)
    assert Counter(before) - Counter(after) == Counter()
    assert " ".join(added) in known


def test_swap_moves_words_and_leaves_punctuation():
    after = corrupted("word_swap")
    assert after != CAPTION
    assert Counter(split_words(after)[0]) == Counter(split_words(CAPTION)[0])
    assert split_words(after)[1] == split_words(CAPTION)[1]


@pytest.mark.parametrize("severity", [1, 5])
def test_deletion_leaves_out_the_share_of_the_level(severity):
    captions = generated(400)
    kept = [
        len(corrupted("word_deletion", caption, severity, seed).split()) / len(caption.split())
        for seed, caption in enumerate(captions)
    ]
    assert 1 - fmean(kept) == pytest.approx(0.05 * (severity + 2), rel=0.1)


def test_deletion_closes_the_gap_and_keeps_one_word():
    after = {corrupted("word_deletion", "Dogs , cats .", 5, seed) for seed in range(40)}
    assert after == {"Dogs , cats .", ", cats .", "Dogs , ."}


def test_punctuation_is_put_in_front_of_words():
    for seed in range(20):
        after = corrupted("insert_punctuation", seed=seed).split(" ")
        added = [token for token in after if token in ".,!?;:"]
        assert 1 <= len(added) <= int(0.35 * 11 + 1)
        assert " ".join(token for token in after if token not in ".,!?;:") == CAPTION


@pytest.mark.parametrize(("words", "severity", "most"), [(10, 5, 4), (10, 1, 2), (20, 1, 4)])
def test_every_number_of_marks_up_to_the_most_is_drawn(words, severity, most):
    caption = " ".join(["word"] * words)
    drawn = {
        len(corrupted("insert_punctuation", caption, severity, seed).split(" ")) - words
        for seed in range(100)
    }
    assert drawn == set(range(1, most + 1))


class TestAsPublished:
    @pytest.mark.parametrize("name", [name for name in WORD if name != "insert_punctuation"])
    def test_eda_loses_case_and_punctuation(self, name):
        after = text.as_published(WORD[name])("It's a T-Shirt, No. 5!", 1, default_rng(0))
        assert set(after) <= set("abcdefghijklmnopqrstuvwxyz ")
        assert letters_only("It's a T-Shirt, No. 5!") == "its a t shirt no"

    def test_synonyms_come_from_every_sense(self):
        corrupt = text.as_published(WORD["synonym_replacement"])
        drawn = {corrupt("Young", 5, default_rng(seed)) for seed in range(200)}
        assert {"brigham young", "immature", "offspring"} <= drawn

    def test_a_caption_that_eda_would_empty_is_left_to_the_corruption(self):
        assert text.as_published(WORD["word_swap"])("一二三", 5, default_rng(0)) == "一二三"

    def test_its_name_says_so(self):
        published = text.as_published(WORD["word_swap"])
        assert published.__name__ == "as_published(word_swap)"
        with pytest.raises(KeyError, match="published variant"):
            text.as_published(text.formal)


@pytest.mark.parametrize("name", WORD)
def test_a_caption_of_one_word_is_no_trouble(name):
    after = {corrupted(name, "surfing", 5, seed) for seed in range(10)}
    if name in {"word_swap", "word_deletion"}:
        assert after == {"surfing"}
    assert all(after)


def test_most_written_captions_change():
    for name in WORD:
        changed = [corrupted(name, caption, seed=i) != caption for i, caption in enumerate(WRITTEN)]
        assert fmean(changed) > 0.9
