"""Edits: one change, told, beside distractors that differ in one thing."""

import re
from collections import Counter
from itertools import product

from queryshift.lab import tangram
from queryshift.lab.tangram.edits import KINDS, SENTENCES
from queryshift.lab.tangram.scene_captions import WORDS
from queryshift.lab.tangram.scenes import VALUES

EDITS = tangram.edits("test", 400)


def difference(one, other):
    """The kinds of change that lead from one scene to another."""
    if one.background != other.background:
        return ["paper"]
    gone = [item for item in one.items if item not in other.items]
    come = [item for item in other.items if item not in one.items]
    if len(gone) != len(come):
        return ["add"] * len(come) + ["remove"] * len(gone)
    return [
        name
        for before, after in zip(gone, come, strict=True)
        for name in VALUES
        if getattr(before, name) != getattr(after, name)
    ]


def readings(sentence, scene):
    """Every object of a scene that a sentence may mean, with what it may become."""
    found = set()
    for item, kind in product(scene.items, {*VALUES, "remove"}):
        said = [f"({'|'.join(WORDS[value])})" for value in (item.colour, item.shape, item.place)]
        thing = "{} {}( at the {})?".format(*said)
        new = {word: value for value in VALUES.get(kind, ()) for word in WORDS[value]}
        for pattern in SENTENCES[kind]:
            pattern = pattern.format(thing=thing, value=f"(an? )?(?P<new>{'|'.join(new)})")
            if read := re.fullmatch(pattern, sentence):
                found.add((item, new.get(read.groupdict().get("new"))))
    return found


def test_an_edit_changes_exactly_one_thing():
    assert all(len(difference(edit.reference, edit.target)) == 1 for edit in EDITS)


def test_every_kind_of_change_comes():
    kinds = Counter(difference(edit.reference, edit.target)[0] for edit in EDITS)
    assert set(kinds) == set(KINDS) == set(SENTENCES)
    assert min(kinds.values()) >= 12


def test_each_target_has_a_sibling_that_differs_in_one_attribute():
    for one, other in zip(EDITS[::2], EDITS[1::2], strict=True):
        assert one.reference == other.reference and one.target != other.target
        kind = difference(one.reference, one.target)[0]
        expected = {"add": ["colour"], "remove": None}.get(kind, [kind])
        assert expected is None or difference(one.target, other.target) == expected


def test_the_sentence_says_the_new_value():
    for edit in EDITS:
        kind = difference(edit.reference, edit.target)[0]
        if kind in VALUES:
            changed = next(item for item in edit.target.items if item not in edit.reference.items)
            assert any(word in edit.text for word in WORDS[getattr(changed, kind)]), edit.text
        elif kind == "paper":
            assert any(word in edit.text for word in WORDS[edit.target.background]), edit.text


def test_a_sentence_can_be_read_in_one_way_only():
    for edit in EDITS:
        kind = difference(edit.reference, edit.target)[0]
        if kind in ("paper", "add"):  # they name no object of the reference
            continue
        gone = [item for item in edit.reference.items if item not in edit.target.items]
        come = [item for item in edit.target.items if item not in edit.reference.items]
        read = readings(edit.text, edit.reference)
        assert read == {(gone[0], getattr(come[0], kind) if come else None)}, edit.text


def test_the_gallery_holds_every_target_first_and_every_reference():
    shown = tangram.candidates(EDITS)
    assert shown[: len(EDITS)] == [edit.target for edit in EDITS]
    contents = {scene.content() for scene in shown}
    assert len(contents) == len(shown) == 600
    assert {edit.reference.content() for edit in EDITS} <= contents


def test_references_and_targets_stay_in_their_world():
    for split in tangram.SPLITS:
        for edit in tangram.edits(split, 60):
            assert tangram.belongs(edit.reference.content(), split)
            assert tangram.belongs(edit.target.content(), split)


def test_the_same_seed_gives_the_same_edits():
    assert tangram.edits("dev", 20) == tangram.edits("dev", 50)[:20]
    assert tangram.edits("dev", 20) != tangram.edits("dev", 20, seed=1)


def test_a_query_is_a_picture_and_a_sentence():
    picture, sentence = EDITS[0].query()
    assert picture.shape == (64, 64, 3) and sentence == EDITS[0].text
