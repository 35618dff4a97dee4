"""Captions: five ways to say what is true of a scene."""

import re

import pytest

from queryshift.lab import tangram
from queryshift.lab.tangram.scene_captions import WORDS, with_article
from queryshift.lab.tangram.scenes import COLOURS, FILLS, SHAPES, SIZES

SCENES = tangram.scenes("test", 300)


def says(caption, meaning):
    """Whether a caption uses one of the words for a meaning."""
    caption = re.sub(r"(background is|background|paper|against|all on)", " ", caption)
    return any(re.search(rf"(?<![\w-]){word}(?![\w-])", caption) for word in WORDS[meaning])


def test_a_scene_has_five_different_captions_always_the_same():
    for scene in SCENES[:50]:
        told = tangram.captions(scene)
        assert len(set(told)) == 5
        assert told == tangram.captions(scene)


def test_no_caption_serves_two_scenes():
    told = [caption for scene in SCENES for caption in tangram.captions(scene)]
    assert len(set(told)) == len(told)


@pytest.mark.parametrize(
    ("attribute", "values"), [("shape", SHAPES), ("size", SIZES), ("fill", FILLS)]
)
def test_captions_say_nothing_that_is_not_there(attribute, values):
    for scene in SCENES[:150]:
        true = {getattr(item, attribute) for item in scene.items}
        for caption in tangram.captions(scene):
            told = {value for value in values if says(caption, value)}
            assert told <= true, (caption, told - true)


def test_colours_are_those_of_the_objects_or_of_the_paper():
    for scene in SCENES[:150]:
        true = {item.colour for item in scene.items}
        true |= {"blue"} if scene.background == "sky" else set()
        for caption in tangram.captions(scene):
            assert {colour for colour in COLOURS if says(caption, colour)} <= true, caption


def test_captions_leave_things_out_and_change_the_order():
    told = [caption for scene in SCENES for caption in tangram.captions(scene)]
    coloured = sum(any(says(caption, colour) for colour in COLOURS) for caption in told)
    on_paper = sum("background" in caption or "paper" in caption for caption in told)
    assert coloured > 0.95 * len(told)
    assert 0.1 < on_paper / len(told) < 0.5
    assert len({caption.split()[0] for caption in told}) >= 12


def test_every_word_for_a_meaning_is_used():
    told = " ".join(caption for scene in SCENES for caption in tangram.captions(scene))
    unused = [word for words in WORDS.values() for word in words if word not in told]
    assert not unused


def test_the_second_look_is_told_in_words_the_models_never_read():
    def words(scenes):
        text = " ".join(caption for scene in scenes for caption in tangram.captions(scene))
        return set(re.findall(r"[a-z]+", text))

    usual = words(SCENES)
    assert {"reddish", "triangular", "crayoned"} <= words(tangram.crayon_scenes(200)) - usual
    assert {"cushions", "glazed", "jute"} <= words(tangram.product_scenes(200)) - usual


def test_articles_fit():
    assert with_article("orange box") == "an orange box"
    assert with_article("red box") == "a red box"
