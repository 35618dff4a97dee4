"""Draw docs/img/tangram.png: scenes, the other looks, a clip with its sound, edits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from queryshift.lab import tangram
from queryshift.lab.tangram.towers import log_mel

ACROSS, ZOOM, GAP = 10, 2, 4


def sheet() -> Image.Image:
    scenes, clip = tangram.scenes("test", ACROSS), tangram.clips("test", 4)[2]
    edits = tangram.edits("test", 12)
    rows = [
        [scene.image() for scene in scenes],
        [scene.styled(tangram.CRAYON).image() for scene in scenes],
        [scene.image() for scene in tangram.product_scenes(ACROSS)],
        list(clip.frames()),
        _heard(clip),
        [scene.image() for edit in edits[2:] for scene in (edit.reference, edit.target)][:ACROSS],
    ]
    drawn = np.concatenate([_row(pictures) for pictures in rows])
    return Image.fromarray(drawn.repeat(ZOOM, 0).repeat(ZOOM, 1))


def _heard(clip: tangram.Clip) -> list[NDArray]:
    """The spectrogram in ten parts, under the frames they belong to; high tones at the top."""
    mel = log_mel(torch.from_numpy(clip.waveform())[None])[0].T.flip(0).numpy()
    grey = np.clip((mel + 1.5) / 4.5 * 255, 0, 255).astype(np.uint8)
    parts = np.split(grey, ACROSS, axis=1)
    return [part.repeat(8, 1)[..., None].repeat(3, 2) for part in parts]


def _row(pictures: list[NDArray]) -> NDArray:
    return np.concatenate(
        [np.pad(one, ((0, GAP), (0, GAP), (0, 0)), constant_values=255) for one in pictures], axis=1
    )


if __name__ == "__main__":
    sheet().save(Path(__file__).parents[1] / "docs" / "img" / "tangram.png", optimize=True)
