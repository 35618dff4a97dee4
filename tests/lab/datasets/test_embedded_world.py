"""The embedded world as a dataset: whole, matched, and honest about what there is."""

from functools import cache

import numpy as np
import pytest

from queryshift.errors import BadInput, UnknownName
from queryshift.lab import tangram as world
from queryshift.lab.datasets.tangram import LOOKED_AT, LOOKS, TASKS, scenes_in, tangram

CANDIDATES = {"image": 10_000, "text": 2_000, "video": 2_000, "audio": 2_000, "composed": 3_000}


@cache
def seven(task):
    return tangram(task, count=7)


SLOW = ("video", "audio")
EVERY = [pytest.param(task, marks=pytest.mark.slow) if task in SLOW else task for task in TASKS]


@pytest.mark.parametrize("task", EVERY)
class TestEveryTask:
    def test_few_queries_are_asked_of_all_candidates(self, task):
        few = seven(task)
        assert len(few.queries) == len(few.query_ids) == len(few.matches) == 7
        assert len(few.candidates) == CANDIDATES[task]
        assert (few.query, few.gallery) == TASKS[task][1:]

    @pytest.mark.parametrize("count", [0, -3])
    def test_no_queries_are_refused(self, task, count):
        with pytest.raises(BadInput, match=f"count of {count} queries, expected at least 1"):
            tangram(task, count=count)


@pytest.mark.parametrize("look", LOOKS)
class TestLooks:
    def test_a_picture_is_matched_with_its_own_five_captions(self, look):
        shown, scene = tangram("image", count=12, look=look), scenes_in(look, "test", 12)[11]
        assert np.array_equal(shown.queries[11], scene.image())
        assert [shown.candidates[row] for row in shown.matches[11]] == world.captions(scene)

    def test_captions_of_every_place_ask_for_their_picture(self, look):
        shown = tangram("text", count=7, look=look)
        for row, scene in enumerate(scenes_in(look, "test", 7)):
            assert shown.queries[row] == world.captions(scene)[row % 5]
            assert np.array_equal(shown.candidates[shown.matches[row][0]], scene.image())


def test_a_clip_is_matched_with_its_own_sound_both_ways():
    clip = world.clips("test", 3)[2]
    for task, own, other in (
        ("video", clip.frames(), clip.waveform()),
        ("audio", clip.waveform(), clip.frames()),
    ):
        shown = seven(task)
        assert np.array_equal(shown.queries[2], own)
        assert np.array_equal(shown.candidates[shown.matches[2][0]], other)


def test_an_edit_is_matched_with_its_target_and_its_reference_is_a_candidate():
    shown, edit = seven("composed"), world.edits("test", 5)[4]
    assert shown.queries[4][1] == edit.text
    assert np.array_equal(shown.candidates[shown.matches[4][0]], edit.target.image())
    assert any(np.array_equal(one, edit.reference.image()) for one in shown.candidates[2000:])


@pytest.mark.parametrize("task", sorted(set(TASKS) - set(LOOKED_AT)))
def test_a_look_that_a_task_does_not_have_is_refused_and_not_ignored(task):
    with pytest.raises(BadInput, match=f'no {task} queries in the look "crayon".* image, text'):
        tangram(task, look="crayon")


def test_unknown_names_are_refused():
    with pytest.raises(UnknownName, match='no tangram task "vidio"; did you mean "video"'):
        tangram("vidio")
    with pytest.raises(UnknownName, match='no look "crayons"; did you mean "crayon"'):
        tangram("image", look="crayons")
    with pytest.raises(UnknownName, match='no split "tests"; did you mean "test"'):
        tangram("image", "tests")


def test_a_caption_asks_for_the_other_captions_of_its_scene():
    asked = tangram("sentence", count=7)
    assert (asked.query, asked.gallery, len(asked.candidates)) == ("text", "text", 8000)
    for scene, query, right in zip(
        world.scenes("test", 7), asked.queries, asked.matches, strict=True
    ):
        assert {query, *(asked.candidates[place] for place in right)} == set(world.captions(scene))
