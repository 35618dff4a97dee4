"""Each known deviation of the scripts behind the published COCO and Flickr benchmarks."""

import cv2
import numpy as np
import pytest
from pictures import photo
from PIL import Image

from queryshift.lab.corruptions import image
from queryshift.lab.corruptions.image import mm_robustness, weather
from queryshift.lab.corruptions.image.blur import soft_blur

CORRECT = image.preset("imagenet_c")
PUBLISHED = image.preset("mm_robustness")
SAME = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"),
    *("defocus_blur", "motion_blur", "brightness", "contrast"),
)


def rng(seed=0):
    return np.random.default_rng(seed)


def distance(first, second):
    return np.abs(first.astype(int) - second).mean()


def noise(shape):
    return rng(7).integers(0, 256, shape, dtype=np.uint8)


def test_all_others_are_the_same():
    assert {name for name in CORRECT if CORRECT[name] is PUBLISHED[name]} == set(SAME)


@pytest.mark.parametrize(("severity", "reach", "visited"), [(1, 1, 222), (3, 2, 220), (5, 4, 216)])
def test_glass_blur_visits_one_row_only(severity, reach, visited, monkeypatch):
    """For 480 x 640 at severity 5: the 216 pixels of row 220."""
    scanned = []
    shuffle = mm_robustness.shuffled
    monkeypatch.setattr(
        mm_robustness, "shuffled", lambda *args: scanned.append(args[2]) or shuffle(*args)
    )
    picture = noise((480, 640, 3))
    published = PUBLISHED["glass_blur"](picture, severity, rng())
    [(rows, columns)] = scanned
    assert rows == slice(224 - reach, 225 - reach)
    assert len(range(*columns.indices(640))) == visited
    sigma = (0.7, None, 1.0, None, 1.5)[severity - 1]
    twice = soft_blur(soft_blur(picture, sigma), sigma)
    touched = np.flatnonzero((published != twice).any(axis=(1, 2)))
    assert len(touched) > 0
    assert np.abs(touched - (224 - reach)).max() <= 4 * reach + 6


def test_glass_blur_of_a_small_picture_is_two_soft_blurs():
    picture = noise((6, 6, 3))
    twice = soft_blur(soft_blur(picture, 1.5), 1.5)
    assert np.array_equal(PUBLISHED["glass_blur"](picture, 5, rng()), twice)


def test_zoom_blur_zooms_once_more_at_severity_five_only():
    picture = photo("street")
    for severity in (1, 2, 3, 4):
        expected = CORRECT["zoom_blur"](picture, severity, rng())
        assert np.array_equal(PUBLISHED["zoom_blur"](picture, severity, rng()), expected)
    with_eleven = CORRECT["zoom_blur"](picture, 5, rng())
    with_twelve = PUBLISHED["zoom_blur"](picture, 5, rng())
    assert distance(with_twelve, picture) > distance(with_eleven, picture)


@pytest.mark.parametrize("side", [1024, 512])
def test_fog_is_a_corner_of_a_map_of_fixed_size(side):
    picture = noise((40, 60, 3))
    clouds = weather.plasma(side, 2.0, rng())[:40, :60, None]
    brightest = picture.max() / 255
    expected = (picture / 255 + 1.5 * clouds) * brightest / (brightest + 1.5) * 255
    foggy = mm_robustness.Fog(side)(picture, 1, rng())
    assert np.abs(foggy - np.clip(expected, 0, 255)).max() <= 1.01
    assert distance(foggy, CORRECT["fog"](picture, 1, rng())) > 2


def test_fog_of_coco_is_the_presets():
    assert PUBLISHED["fog"] == mm_robustness.Fog(1024)


class TestFrost:
    @pytest.fixture
    def folder(self, tmp_path):
        """Six textures; the sixth is white, the others dark with a red top left corner."""
        for number in range(6):
            texture = np.full((100, 150, 3), 255 if number == 5 else 20, np.uint8)
            if number < 5:
                texture[:50, :75] = (200, 20, 20)
            Image.fromarray(texture).save(tmp_path / f"frost{number + 1}.png")
        return tmp_path

    def test_red_and_blue_are_exchanged_and_the_crop_is_the_top_left(self, folder):
        frost = image.preset("mm_robustness", textures=folder)["frost"]
        black = np.zeros((64, 64, 3), np.uint8)
        for seed in range(20):
            frosted = frost(black, 3, rng(seed))
            assert np.array_equal(np.unique(frosted.reshape(-1, 3), axis=0), [[14, 14, 140]])

    def test_textures_are_enlarged_to_1800_pixels(self, folder):
        frost = image.preset("mm_robustness", textures=folder)["frost"]
        black = np.zeros((60, 1800, 3), np.uint8)
        blue = frost(black, 3, rng())[0, :, 2]
        assert np.count_nonzero(blue > 77) == pytest.approx(900, abs=2)

    def test_the_sixth_texture_is_never_drawn(self, folder):
        black = np.zeros((8, 8, 3), np.uint8)
        published = image.preset("mm_robustness", textures=folder)["frost"]
        correct = image.preset("imagenet_c", textures=folder)["frost"]
        assert max(published(black, 1, rng(i)).max() for i in range(60)) < 100
        assert max(correct(black, 1, rng(i)).max() for i in range(60)) > 100


def test_snow_takes_red_for_blue_in_its_grey():
    blue = np.zeros((64, 64, 3), np.uint8)
    blue[..., 2] = 255
    published, correct = (form["snow"](blue, 5, rng()) for form in (PUBLISHED, CORRECT))
    assert np.array_equal(published, CORRECT["snow"](blue[..., ::-1], 5, rng())[..., ::-1])
    assert published[..., 0].mean() > correct[..., 0].mean() + 10


def test_pixelate_shrinks_to_a_fixed_square():
    picture = noise((448, 448, 3))
    published = PUBLISHED["pixelate"](picture, 5, rng())
    assert np.array_equal(
        published[::8, ::8], cv2.resize(picture, (56, 56), interpolation=cv2.INTER_AREA)
    )
    assert not np.array_equal(published[::8, ::8], CORRECT["pixelate"](picture, 5, rng())[::8, ::8])


def test_pixelate_exchanges_height_and_width():
    dark_left = np.zeros((120, 200, 3), np.uint8)
    dark_left[:, 100:] = 255
    published = PUBLISHED["pixelate"](dark_left, 3, rng())
    assert published.shape == (200, 120, 3)
    assert published[:, :50].max() < 128 < published[:, 70:].min()


@pytest.mark.parametrize("severity", [2, 5])
def test_elastic_has_constants_in_pixels(severity):
    picture = photo("hills")
    expected = image.elastic_pixels(picture, severity, rng())
    assert np.array_equal(PUBLISHED["elastic"](picture, severity, rng()), expected)
    assert not np.array_equal(CORRECT["elastic"](picture, severity, rng()), expected)


def test_jpeg_codes_colours_exchanged_and_saves_once_more():
    picture = photo("street")
    published = PUBLISHED["jpeg"](picture, 5, rng())
    exchanged = CORRECT["jpeg"](np.ascontiguousarray(picture[..., ::-1]), 5, rng())[..., ::-1]
    _, file = cv2.imencode(".jpg", exchanged[..., ::-1].copy(), (cv2.IMWRITE_JPEG_QUALITY, 95))
    saved = cv2.imdecode(file, cv2.IMREAD_COLOR)[..., ::-1]
    assert np.array_equal(published, saved)
    assert not np.array_equal(published, exchanged)
    assert distance(published, CORRECT["jpeg"](picture, 5, rng())) > 3
