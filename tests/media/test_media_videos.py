"""Clips are sequences of pictures; a frame that is none is named."""

import numpy as np
import pytest

import queryshift as qs
from queryshift.errors import BadItem

CLIP = np.zeros((10, 8, 8, 3), np.uint8)


@pytest.mark.parametrize(
    ("item", "complaint"),
    [
        ([*CLIP[:9], 0.5], "a list: frame 9, a float: expected an image"),
        ([*CLIP[:9], "9.png"], "a list: frame 9, a str: .*pathlib"),
        (b"film", "bytes: expected a clip"),
        ({"frames": 1}, "a dict: expected a clip"),
        (np.array(0), "an ndarray: got a clip without frames"),
        ([], "a list: got a clip without frames"),
        (3, "an int: expected a clip"),
    ],
)
def test_what_is_no_clip_is_named_by_index_and_type(item, complaint):
    with pytest.raises(BadItem, match=f"^item 1, {complaint}") as caught:
        qs.load("tangram-clips")["video"].encode([CLIP, item])
    assert caught.value.index == 1
