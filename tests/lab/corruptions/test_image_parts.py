"""The pieces image corruptions are made of, beside plain and slow definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import photo

from queryshift.lab.corruptions import find, image
from queryshift.lab.corruptions.image import noise, pixels
from queryshift.lab.corruptions.image.blur import ZOOMS, shuffled
from queryshift.lab.corruptions.image.frost import PANES, pane
from queryshift.lab.corruptions.image.pixels import smeared, zoomed
from queryshift.lab.corruptions.image.weather import plasma


def rng(seed=0):
    return np.random.default_rng(seed)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 4), st.integers(0, 9))
def test_shuffling_equals_the_published_scan(height, width, reach, seed):
    picture = np.arange(height * width * 3).reshape(height, width, 3)
    rows = slice(reach + 1, max(height - reach + 1, 0))
    columns = slice(reach + 1, max(width - reach + 1, 0))
    inner = picture[rows, columns].shape[:2]
    steps = rng(seed).integers(-reach, reach, size=(2, *inner), dtype=np.int8)
    expected = picture.copy()
    for row in reversed(range(inner[0])):
        for column in reversed(range(inner[1])):
            y, x = row + reach + 1, column + reach + 1
            expected[y, x] = expected[y + steps[0, row, column], x + steps[1, row, column]]
    assert np.array_equal(shuffled(picture, reach, (rows, columns), rng(seed)), expected)


@pytest.mark.parametrize("angle", [-135, -45, 0, 30, 45])
def test_motion_of_one_bright_point_is_a_line_of_weight_one(angle):
    point = np.zeros((101, 101), np.uint8)
    point[50, 50] = 100
    line = smeared(point, 15, 8, angle)
    rows, columns = np.nonzero(line)
    assert line.sum() == pytest.approx(100, rel=1e-4)
    assert np.hypot(np.ptp(rows), np.ptp(columns)) == pytest.approx(30, abs=1)
    towards = np.arctan2(50 - rows.mean(), 50 - columns.mean())
    assert np.degrees(towards) == pytest.approx(angle, abs=2)
    near = np.hypot(rows - 50, columns - 50) <= 8  # one sigma of a one-sided Gaussian
    assert line[rows[near], columns[near]].sum() == pytest.approx(68, abs=6)


def test_motion_keeps_a_plain_picture_and_one_smaller_than_its_stroke():
    plain = np.full((9, 7, 3), 80, np.uint8)
    assert smeared(plain, 20, 15, 30) == pytest.approx(80, abs=1e-3)


def test_zooming_keeps_the_centre_and_a_straight_slope():
    slope = np.arange(101, dtype=np.float32)[None].repeat(101, axis=0)
    larger = zoomed(slope, 1.25, slope.shape)
    assert larger[50, 50] == pytest.approx(50, abs=0.5)
    assert np.diff(larger[50]) == pytest.approx(1 / 1.25, abs=0.02)


def test_zoom_factors_are_the_published_ones():
    assert [len(factors) for factors in ZOOMS] == [12, 16, 11, 13, 11]
    assert [round(factors[-1], 3) for factors in ZOOMS] == [1.11, 1.15, 1.2, 1.24, 1.3]


@pytest.mark.parametrize("side", [1, 2, 64, 256])
def test_plasma_fills_zero_to_one(side):
    clouds = plasma(side, 2.0, rng())
    assert clouds.shape == (side, side)
    assert clouds.min() == 0
    assert clouds.max() == (1 if side > 1 else 0)


def test_plasma_is_rougher_with_a_slower_decay():
    rough, smooth = (np.abs(np.diff(plasma(128, decay, rng()))).mean() for decay in (1.4, 2.0))
    assert rough > 2 * smooth


class TestNoiseTables:
    def test_normal_noise_has_its_published_size(self):
        middle = noise._gaussian(0.08)[128].astype(float)
        assert middle.std() == pytest.approx(0.08 * 255, rel=0.01)
        assert middle.mean() == pytest.approx(127.5, abs=0.1)  # the fraction is cut off

    def test_speckle_leaves_black_alone_and_grows_with_brightness(self):
        spread = noise._speckle(0.15).astype(float).std(axis=1)
        assert spread[0] == 0
        assert spread[100] == pytest.approx(15, rel=0.01)

    def test_shot_noise_counts_photons(self):
        counts = noise._shot(60)[85].astype(float) / 255 * 60
        assert counts.mean() == pytest.approx(20, rel=0.01)
        assert counts.var() == pytest.approx(20, rel=0.03)
        assert not noise._shot(60)[0].any()

    @pytest.mark.parametrize("amount", [0.03, 0.27])
    def test_impulses_are_salt_and_pepper_in_equal_parts(self, amount):
        values = noise._impulse(amount)[128]
        assert np.mean(values == 0) == pytest.approx(amount / 2, rel=0.03)
        assert np.mean(values == 255) == pytest.approx(amount / 2, rel=0.03)
        assert np.mean(values == 128) == pytest.approx(1 - amount, rel=0.01)

    def test_looking_up_equals_indexing(self):
        table = rng().integers(0, 256, (256, 64), dtype=np.uint8)
        rows = rng(1).integers(0, 256, (5, 4, 1), dtype=np.uint8)
        columns = rng(2).integers(0, 64, (5, 4, 3), dtype=np.uint8)
        assert np.array_equal(pixels.looked_up(table, rows, columns), table[rows, columns])


class TestBrightness:
    def test_black_becomes_grey_and_white_stays(self):
        assert image.brightness(np.zeros((1, 1, 3), np.uint8), 2, rng()).tolist() == [[[51] * 3]]
        white = np.full((1, 1, 3), 255, np.uint8)
        assert np.array_equal(image.brightness(white, 5, rng()), white)

    def test_hue_is_kept(self):
        orange = np.array([[[100, 50, 0]]], np.uint8)
        assert image.brightness(orange, 2, rng()).tolist() == [[[151, 75, 0]]]


def test_contrast_keeps_the_mean_of_every_channel():
    clean = photo("street")
    flat = image.contrast(clean, 4, rng())
    assert flat.mean(axis=(0, 1)) == pytest.approx(clean.mean(axis=(0, 1)), abs=1)
    assert flat.std() < clean.std()


def test_panes_of_ice_are_distinct_and_always_the_same():
    first = pane(0)
    pane.cache_clear()
    assert np.array_equal(pane(0), first)
    brightness = [pane(index).mean() for index in range(len(PANES))]
    assert max(brightness) > 1.8 * min(brightness)


@pytest.mark.parametrize(("height", "width"), [(100, 250), (250, 100)])
def test_elastic_wrinkles_are_a_hundredth_of_each_side_and_as_high_as_the_height_says(
    height, width
):
    """A picture whose colours are its coordinates shows how far each pixel came."""
    rows, columns = np.mgrid[:height, :width]
    coordinates = np.dstack((columns, rows, 0 * rows)).astype(np.uint8)
    inner = (slice(25, -25), slice(25, -25))
    fields = [
        field[inner]
        for seed in range(4)
        for corrupted in [find("image", "elastic")(coordinates, 5, rng(seed)).astype(float)]
        for field in (corrupted[..., 0] - columns, corrupted[..., 1] - rows)
    ]
    smooth_down, smooth_across = 0.01 * height, 0.01 * width
    blurred = 1 / np.sqrt(3 * 4 * np.pi * smooth_down * smooth_across)  # of uniform noise in -1..1
    assert np.std(fields) == pytest.approx(30 * 0.005 * height * blurred, rel=0.1)
    for axis, smooth in ((1, smooth_down), (2, smooth_across)):
        steps = np.diff(fields, axis=axis).var() / np.var(fields)
        assert 1 - steps / 2 == pytest.approx(np.exp(-1 / (4 * smooth**2)), abs=0.06)


@pytest.mark.parametrize("value", [40, 120, 255])
def test_fog_fades_by_the_brightest_pixel_of_the_picture(value):
    """Where the fog is thickest it is as bright as that pixel, never brighter."""
    plain = np.full((64, 64, 3), value, np.uint8)
    for severity, amount in zip(range(1, 6), (1.5, 2.0, 2.5, 2.5, 3.0), strict=True):
        foggy = find("image", "fog")(plain, severity, rng())
        assert foggy.max() == pytest.approx(value, abs=1)
        assert foggy.min() == pytest.approx(value * value / (value + 255 * amount), abs=1)
