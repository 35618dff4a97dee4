"""What holds for every image corruption, in either preset."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import photo
from PIL import Image

from queryshift.errors import BadFile, BadInput, UnknownName
from queryshift.lab.corruptions import SEVERITIES, corrupt, image

DEFAULT = image.preset()
EVERY = [(preset, name) for preset in image.PRESETS for name in DEFAULT]
WHOLE = (64, 64, 3)
sides = st.integers(1, 40)


def rng(seed=0):
    return np.random.default_rng(seed)


def random_picture(shape, seed=0):
    return rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize(("preset", "name"), EVERY)
class TestEveryCorruption:
    @settings(max_examples=8, deadline=None, derandomize=True)
    @given(height=sides, width=sides, severity=st.sampled_from(SEVERITIES), seed=st.integers(0, 99))
    def test_contract(self, preset, name, height, width, severity, seed):
        corruption = image.preset(preset)[name]
        picture = random_picture((height, width, 3), seed)
        before = picture.copy()
        corrupted = corruption(picture, severity, rng(seed))
        exchanged = (preset, name) == ("mm_robustness", "pixelate")
        assert corrupted.shape == ((width, height, 3) if exchanged else picture.shape)
        assert corrupted.dtype == np.uint8
        assert np.array_equal(picture, before)
        assert not np.shares_memory(picture, corrupted)
        assert np.array_equal(corrupted, corruption(picture, severity, rng(seed)))

    def test_keeps_pillow_images_pillow_images(self, preset, name):
        corruption = image.preset(preset)[name]
        picture = random_picture(WHOLE)
        corrupted = corruption(Image.fromarray(picture), 3, rng())
        assert isinstance(corrupted, Image.Image)
        assert corrupted.mode == "RGB"
        assert np.array_equal(np.asarray(corrupted), corruption(picture, 3, rng()))

    def test_refuses_a_severity_out_of_range(self, preset, name):
        for severity in (0, 6, -1, 2.5, "3", None, True):
            with pytest.raises(BadInput, match="from 1 to 5"):
                image.preset(preset)[name](random_picture(WHOLE), severity, rng())

    def test_is_called_by_its_name_and_travels_to_other_processes(self, preset, name):
        corruption = image.preset(preset)[name]
        assert corruption.__name__ == name
        assert corruption.__doc__
        copy = pickle.loads(pickle.dumps(corruption))
        picture = random_picture(WHOLE)
        assert np.array_equal(copy(picture, 2, rng()), corruption(picture, 2, rng()))


@pytest.mark.parametrize("name", DEFAULT)
def test_severity_five_is_farther_from_clean_than_severity_one(name):
    scene = photo("hills")
    corners = rng().integers(0, scene.shape[0] - 48, (200, 2))
    items = [np.ascontiguousarray(scene[y : y + 48, x : x + 48]) for y, x in corners]

    def distance(severity):
        changed = [
            corrupt(item, DEFAULT[name], severity, seed=0, item_id=number)
            for number, item in enumerate(items)
        ]
        return np.abs(np.stack(changed).astype(int) - np.stack(items)).mean()

    assert distance(5) > distance(1)


@pytest.mark.parametrize("name", DEFAULT)
def test_small_pictures_do_not_vanish(name):
    for picture in ("hills", "street", "fruit"):
        clean = np.asarray(Image.fromarray(photo(picture)).resize((64, 64)))
        mean = np.mean([DEFAULT[name](clean, 5, rng(draw)) for draw in range(24)], axis=0)
        likeness = np.corrcoef(mean.ravel(), clean.ravel())[0, 1]
        assert likeness > 0.3, picture


class TestOtherPictures:
    def test_grey_becomes_three_equal_channels(self):
        grey = random_picture((20, 30))
        for picture in (grey, grey[..., None]):
            brighter = image.brightness(picture, 1, rng())
            assert np.array_equal(brighter, image.brightness(np.dstack([grey] * 3), 1, rng()))

    def test_an_alpha_channel_is_dropped(self):
        picture = random_picture((20, 30, 4))
        expected = image.contrast(picture[..., :3], 2, rng())
        assert np.array_equal(image.contrast(picture, 2, rng()), expected)
        pillow = image.contrast(Image.fromarray(picture, "RGBA"), 2, rng())
        assert np.array_equal(np.asarray(pillow), expected)

    @pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK"])
    def test_pillow_modes_of_eight_bits_are_converted(self, mode):
        picture = Image.fromarray(random_picture(WHOLE)).convert(mode)
        expected = image.jpeg(picture.convert("RGB"), 4, rng())
        assert np.array_equal(image.jpeg(picture, 4, rng()), expected)

    @pytest.mark.parametrize("dtype", [np.uint16, np.float32, np.int64, bool])
    def test_other_number_types_are_refused(self, dtype):
        with pytest.raises(BadInput, match=r"expected 8 bit .* convert"):
            image.fog(np.ones((16, 16, 3), dtype), 1, rng())

    @pytest.mark.parametrize("mode", ["I;16", "I", "F"])
    def test_sixteen_bit_pillow_images_are_refused(self, mode):
        with pytest.raises(BadInput, match="expected 8 bit per channel"):
            image.fog(Image.new(mode, (16, 16)), 1, rng())

    @pytest.mark.parametrize("shape", [(16,), (16, 16, 2), (0, 16, 3), (4, 16, 16, 3)])
    def test_other_shapes_are_refused(self, shape):
        with pytest.raises(BadInput, match="expected \\(height, width"):
            image.fog(np.zeros(shape, np.uint8), 1, rng())

    def test_what_is_no_picture_is_refused(self):
        with pytest.raises(BadInput, match="numpy array or a Pillow image; got str"):
            image.fog("photo.jpg", 1, rng())

    def test_a_view_is_corrupted_like_its_copy(self):
        view = random_picture((40, 50, 3))[::-2, 5:30, ::-1]
        for name, corruption in DEFAULT.items():
            expected = corruption(view.copy(), 3, rng())
            assert np.array_equal(corruption(view, 3, rng()), expected), name


class TestFrostTextures:
    @pytest.fixture
    def folder(self, tmp_path):
        Image.new("RGB", (90, 70), (200, 100, 40)).save(tmp_path / "flat.png")
        (tmp_path / "notes.txt").write_text("not a picture")
        return tmp_path

    def test_photographs_are_added_with_the_published_weights(self, folder):
        grey = np.full((64, 64, 3), 100, np.uint8)
        frosted = image.Frost(textures=folder)(grey, 2, rng())
        assert np.array_equal(np.unique(frosted.reshape(-1, 3), axis=0), [[200, 140, 104]])
        assert np.array_equal(frosted, image.preset(textures=str(folder))["frost"](grey, 2, rng()))

    def test_a_small_texture_grows_with_the_picture(self, folder):
        assert image.Frost(folder)(random_picture((300, 120, 3)), 1, rng()).shape == (300, 120, 3)

    def test_an_empty_folder_is_refused(self, tmp_path):
        with pytest.raises(BadInput, match="no frost textures in"):
            image.Frost(tmp_path / "none")(random_picture(WHOLE), 1, rng())

    def test_a_damaged_texture_is_named(self, tmp_path):
        (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff nothing")
        with pytest.raises(BadFile, match=r"broken\.jpg"):
            image.Frost(tmp_path)(random_picture(WHOLE), 1, rng())


def test_elastic_in_pixels_moves_more_in_a_small_picture_than_the_scaled_form():
    small = photo("fruit")[:64, :64]
    scaled, fixed = (
        np.mean([np.abs(form(small, 2, rng(i)).astype(int) - small).mean() for i in range(8)])
        for form in (image.elastic, image.elastic_pixels)
    )
    assert fixed > 2 * scaled


def test_an_unknown_preset_is_named_with_the_nearest():
    with pytest.raises(UnknownName, match='did you mean "imagenet_c"'):
        image.preset("imagenet-c")


def test_needs_numpy_opencv_and_pillow_only():
    code = (
        "import sys, numpy, queryshift.lab.corruptions.image as image;"
        "picture = numpy.zeros((32, 32, 3), 'uint8');"
        "[c(picture, 5, numpy.random.default_rng(0)) for c in image.preset().values()];"
        "print({'scipy', 'skimage', 'numba', 'wand', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
