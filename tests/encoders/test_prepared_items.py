"""Items that were prepared before their batch is known give the vectors of the items."""

import pytest
import torch

import queryshift as qs
from queryshift.lab import tangram


@pytest.mark.parametrize("ready", [[0, 1, 2, 3], [1], []])
def test_they_are_answered_as_the_items_are(ready):
    encoder = qs.load("tangram")["image"]
    pictures = [scene.image().repeat(3, 0).repeat(3, 1) for scene in tangram.scenes("test", 4)]
    items = [
        encoder.prepare_item(one) if place in ready else one for place, one in enumerate(pictures)
    ]
    assert torch.equal(encoder.encode(items), encoder.encode(pictures))
