"""Scenes: seeded, distinct, drawn as told, and never in two worlds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryshift.errors import UnknownName
from queryshift.lab import tangram
from queryshift.lab.tangram.scenes import BACKGROUNDS, PLACES, RADII, VALUES, Item, Scene
from queryshift.lab.tangram.styles import INKS, PAPERS

items = st.builds(
    Item,
    **{name: st.sampled_from(values) for name, values in VALUES.items()},
    nudge=st.tuples(st.integers(-2, 2), st.integers(-2, 2)),
)


def contents(split, count=2000, seed=0):
    return {scene.content() for scene in tangram.scenes(split, count, seed)}


def test_worlds_never_share_a_scene():
    worlds = [contents(split) for split in tangram.SPLITS]
    assert [len(world) for world in worlds] == [2000] * len(tangram.SPLITS)
    assert len(set.union(*worlds)) == 2000 * len(tangram.SPLITS)


@pytest.mark.parametrize("split", tangram.SPLITS)
def test_a_scene_names_its_own_world_whatever_its_order_and_style(split):
    for scene in tangram.scenes(split, 50, seed=3):
        turned = Scene(scene.items[::-1], scene.background, tangram.CRAYON)
        assert tangram.belongs(turned.content(), split)


def test_the_same_seed_gives_the_same_scenes_and_more_are_only_added():
    assert tangram.scenes("test", 30) == tangram.scenes("test", 80)[:30]
    assert tangram.scenes("test", 30) != tangram.scenes("test", 30, seed=1)


def test_the_first_scene_of_the_test_world_stays_what_it_is():
    first = tangram.scenes("test", 1)[0]
    assert first.content() == (
        "white; diamond green small outlined middle centre; "
        "diamond purple large outlined top right; diamond teal small solid top left"
    )
    assert first.image().mean() == pytest.approx(241.64, abs=0.05)


def test_scenes_have_two_to_four_objects_in_different_places():
    for scene in tangram.scenes("dev", 200):
        assert 2 <= len(scene.items) <= 4
        assert len({item.place for item in scene.items}) == len(scene.items)


def test_an_unknown_split_is_refused():
    with pytest.raises(UnknownName, match="train, dev, test"):
        tangram.scenes("validation", 1)


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_an_empty_place_shows_the_paper(background):
    picture = Scene((Item("square", "red", "large", "solid", "top left"),), background).image()
    assert picture.shape == (64, 64, 3) and picture.dtype == np.uint8
    assert tuple(picture[60, 60]) == PAPERS[background]


@given(items)
@settings(max_examples=60, deadline=None)
def test_an_object_is_drawn_in_its_ink_at_its_place_and_nowhere_else(item):
    picture = Scene((item,), "white").image().astype(int)
    rows, columns = np.nonzero(np.abs(picture - PAPERS["white"]).sum(-1) > 60)
    x, y = item.centre
    reach = RADII[item.size] + 1.5
    assert len(rows) > 8
    assert np.abs(columns + 0.5 - x).max() <= reach and np.abs(rows + 0.5 - y).max() <= reach
    darkest = np.abs(picture - INKS[item.colour]).sum(-1).min()
    assert darkest < 60


@pytest.mark.parametrize("attribute", VALUES)
def test_every_value_of_an_attribute_looks_different(attribute):
    base = Item("square", "red", "large", "solid", "middle centre")
    pictures = [
        Scene((base.altered(attribute, value),), "white").image() for value in VALUES[attribute]
    ]
    for index, picture in enumerate(pictures):
        for other in pictures[:index]:
            assert np.abs(picture.astype(int) - other).sum() > 2000


def test_edges_are_smoothed():
    picture = Scene((Item("circle", "black", "large", "solid", PLACES[4]),), "white").image()
    assert len(np.unique(picture[..., 0])) > 4


class TestStyles:
    def test_the_second_look_shows_the_same_scenes_otherwise(self):
        plain, crayon = tangram.scenes("test", 20), tangram.crayon_scenes(20)
        assert [scene.content() for scene in plain] == [scene.content() for scene in crayon]
        for one, other in zip(plain, crayon, strict=True):
            assert np.abs(one.image().astype(int) - other.image()).mean() > 6

    def test_products_mix_many_domains(self):
        shown = tangram.product_scenes(300)
        assert {scene.style for scene in shown} == set(tangram.DOMAINS)
        assert len(tangram.DOMAINS) >= 10

    def test_no_two_styles_look_alike(self):
        scene = tangram.scenes("test", 1)[0]
        pictures = {
            name: scene.styled(style).image().astype(int) for name, style in tangram.STYLES.items()
        }
        for name, picture in pictures.items():
            for other in pictures:
                assert name == other or np.abs(picture - pictures[other]).mean() > 2
