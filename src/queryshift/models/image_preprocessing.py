"""Images to pixels, by a model's own processor or by Pillow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from queryshift.media.images import images

if TYPE_CHECKING:
    from PIL.Image import Image

BICUBIC = 3  # PIL.Image.Resampling.BICUBIC


@dataclass(frozen=True)
class Scale:
    """The mean and spread of each colour in a tower's training."""

    mean: tuple[float, float, float]
    spread: tuple[float, float, float]

    def pixels(self, image: Image) -> Tensor:
        """Convert an image to a tensor (3, height, width) of about zero mean and unit spread."""
        values = np.asarray(image, dtype=np.float32) / 255.0
        scaled = (values - np.array(self.mean, np.float32)) / np.array(self.spread, np.float32)
        return torch.from_numpy(scaled.transpose(2, 0, 1).copy())


IMAGENET = Scale((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CLIP = Scale((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))


def cropped(image: Image, side: int) -> Image:
    """Resize the shorter edge to `side` pixels (bicubic) and crop the middle square."""
    width, height = image.size
    shorter = min(width, height)
    size = (int(side * width / shorter), int(side * height / shorter))
    resized = image.resize(size, BICUBIC)
    left, top = (round((length - side) / 2) for length in size)
    return resized.crop((left, top, left + side, top + side))


def squeezed(image: Image, side: int) -> Image:
    """Resize the whole image to a square (bicubic)."""
    return image.resize((side, side), BICUBIC)


def padded(image: Image, ratio: float) -> Image:
    """Add black bars to an image that is longer or taller than `ratio` (TargetPad)."""
    width, height = image.size
    if max(width, height) / min(width, height) < ratio:
        return image
    target = max(width, height) / ratio
    across, down = (max(int((target - length) / 2), 0) for length in (width, height))
    from PIL.ImageOps import expand

    return expand(image, (across, down))


def stacked(images: Sequence[Image], scale: Scale) -> Tensor:
    """Convert images of one size to one tensor (B, 3, height, width)."""
    return torch.stack([scale.pixels(image) for image in images])


@dataclass(frozen=True)
class Processor:
    """Authors' preprocessing in the form of a Hugging Face image processor."""

    shape: Callable[[Image], Image]
    scale: Scale

    def __call__(self, images: Sequence[Image], return_tensors: str) -> dict[str, Tensor]:
        """Return the images as the tensor `pixel_values`."""
        return {"pixel_values": stacked([self.shape(image) for image in images], self.scale)}


@dataclass(frozen=True)
class ImageReader:
    """Images to pixels; with `square`, squeezed to that side instead of scaled and cropped."""

    processor: Any
    square: int | None = None

    def __call__(self, items: Sequence[Any]) -> dict[str, Tensor]:
        """Read images and apply the processor."""
        read, how = images(items), dict[str, bool]()
        if self.square is not None:
            read = [squeezed(image, self.square) for image in read]
            how = {"do_resize": False, "do_center_crop": False}
        return dict(self.processor(images=read, return_tensors="pt", **how))
