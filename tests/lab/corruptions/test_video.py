"""Clips: every frame by an image corruption, drawn anew for each."""

import numpy as np
import pytest
from pictures import photo
from PIL import Image

from queryshift.errors import BadInput
from queryshift.lab.corruptions import NAMES, SEVERITIES, combination, corrupt, find, image, video

EVERY = [name for family in NAMES["video"].values() for name in family]
DRAWN = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "speckle_noise"),
    *("glass_blur", "motion_blur", "elastic"),
)
STILL = np.stack([photo("fruit")[:48, :40]] * 3)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", EVERY)
class TestEveryCorruption:
    def test_keeps_shape_type_and_input(self, name):
        clip = STILL.copy()
        for severity in SEVERITIES:
            corrupted = corrupt(clip, find("video", name), severity, seed=1, item_id="clip")
            assert corrupted.shape == clip.shape
            assert corrupted.dtype == np.uint8
            assert not np.array_equal(corrupted, clip)
        assert np.array_equal(clip, STILL)

    def test_first_frame_is_the_image_corruption(self, name):
        first = find("video", name)(STILL, 4, rng())[0]
        assert np.array_equal(first, find("image", name)(STILL[0], 4, rng()))

    def test_draws_anew_for_every_frame(self, name):
        corrupted = find("video", name)(STILL, 5, rng())
        alike = np.array_equal(corrupted[0], corrupted[1])
        assert alike is (name not in DRAWN)


def test_a_list_of_pillow_frames_stays_one():
    frames = [Image.fromarray(frame) for frame in STILL]
    corrupted = find("video", "jpeg")(frames, 5, rng())
    assert isinstance(corrupted, list)
    assert all(isinstance(frame, Image.Image) for frame in corrupted)


def test_any_image_corruption_can_be_put_on_frames():
    published = video.per_frame(image.preset("mm_robustness")["glass_blur"])
    assert published.__name__ == "glass_blur"
    assert published(STILL, 5, rng()).shape == STILL.shape


@pytest.mark.parametrize("clip", [STILL[0], STILL[:0], [], "clip.mp4"])
def test_what_is_no_clip_is_refused(clip):
    with pytest.raises(BadInput, match="frame"):
        find("video", "jpeg")(clip, 1, rng())


def test_a_severity_out_of_range_is_refused():
    with pytest.raises(BadInput, match="severity is 9"):
        find("video", "jpeg")(STILL, 9, rng())


def test_one_frame_in_three_segments_meets_the_last_corruption():
    mixed = combination("video", "noise+blur+digital")
    corrupted = mixed(STILL[:1], 5, rng())
    assert np.array_equal(corrupted, find("video", "jpeg")(STILL[:1], 5, rng()))


def test_three_segments_of_ten_frames():
    clip = np.repeat(STILL[:1], 10, axis=0)
    corrupted = combination("video", "noise+blur+digital")(clip, 5, rng())
    draws = rng()
    names = ["gaussian_noise"] * 3 + ["motion_blur"] * 3 + ["jpeg"] * 4
    expected = [
        find("image", name)(frame, 5, draws) for name, frame in zip(names, clip, strict=True)
    ]
    assert np.array_equal(corrupted, np.stack(expected))
