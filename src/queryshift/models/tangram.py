"""The bundled models of the tangram world: scenes, clips and edits, and a matching head."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import normalize

from queryshift.encoder import Encoder
from queryshift.errors import BadInput
from queryshift.models import spectrogram
from queryshift.models.tangram_towers import (
    FRAMES,
    SIDE,
    AudioTower,
    ComposedTower,
    ImageTower,
    MatchingHead,
    TextTower,
    VideoTower,
)
from queryshift.models.towers import LONGEST_TEXT, PADDING

WEIGHTS = Path(__file__).parent / "weights"


class _Tower(Encoder):
    """An encoder around one of the towers."""

    def __init__(self, tower: nn.Module) -> None:
        super().__init__()
        self.tower = tower

    def forward(self, prepared: Any) -> Tensor:
        """Unit vectors (B, 128)."""
        return normalize(self.tower(prepared), dim=-1)


class ImageEncoder(_Tower):
    """Pictures, 64 x 64 x 3 of 8-bit values."""

    def prepare(self, items: Sequence[Any]) -> Tensor:
        """The pictures as one tensor."""
        return _stack(items, (SIDE, SIDE, 3), "picture")


class TextEncoder(_Tower):
    """Sentences."""

    def prepare(self, items: Sequence[str]) -> Tensor:
        """The ids of the sentences' pieces, filled up to the longest."""
        return text_ids(items)


class VideoEncoder(_Tower):
    """Clips of ten pictures, 10 x 64 x 64 x 3 of 8-bit values."""

    def prepare(self, items: Sequence[Any]) -> Tensor:
        """The clips as one tensor."""
        return _stack(items, (FRAMES, SIDE, SIDE, 3), "clip")


class AudioEncoder(_Tower):
    """Waveforms of 1.28 s at 16 kHz, from -1 to 1; longer ones are cut, shorter ones filled."""

    def prepare(self, items: Sequence[Any]) -> Tensor:
        """The waveforms' log-mel spectrograms."""
        waves = torch.zeros(len(items), spectrogram.LENGTH)
        for row, item in zip(waves, items, strict=True):
            samples = np.asarray(item, np.float32)
            if samples.ndim != 1:
                raise BadInput(
                    f"a waveform of shape {samples.shape}; expected one axis, mono samples: "
                    "mix the channels down first."
                )
            row[: len(samples)] = torch.from_numpy(samples[: spectrogram.LENGTH].copy())
        return spectrogram.log_mel(waves)


class ComposedEncoder(_Tower):
    """A picture with a sentence that changes it."""

    def prepare(self, items: Sequence[tuple[Any, str]]) -> tuple[Tensor, Tensor]:
        """The pictures, and the ids of the sentences."""
        pictures, sentences = zip(*items, strict=True)
        return _stack(pictures, (SIDE, SIDE, 3), "picture"), text_ids(sentences)

    def forward(self, prepared: Any) -> Tensor:
        """Unit vectors (B, 128)."""
        return normalize(self.tower(*prepared), dim=-1)


def scenes() -> dict[str, Encoder]:
    """The image and the text tower."""
    model = {"image": ImageTower(), "text": TextTower(vocabulary())}
    _fill(model, "tangram")
    return {"image": ImageEncoder(model["image"]), "text": TextEncoder(model["text"])}


def clips() -> dict[str, Encoder]:
    """The video and the audio tower."""
    model = {"video": VideoTower(), "audio": AudioTower()}
    _fill(model, "tangram-clips")
    return {"video": VideoEncoder(model["video"]), "audio": AudioEncoder(model["audio"])}


def edits() -> dict[str, Encoder]:
    """The composed-query tower and the image tower of its gallery."""
    model = {"image+text": ComposedTower(vocabulary()), "image": ImageTower()}
    _fill(model, "tangram-edits")
    return {
        "image+text": ComposedEncoder(model["image+text"]),
        "image": ImageEncoder(model["image"]),
    }


def matching_head() -> MatchingHead:
    """The head that says whether a sentence matches the tokens of the scenes' image tower."""
    head = MatchingHead(vocabulary())
    _fill({"head": head}, "tangram-matching")
    return head.eval()


def vocabulary() -> int:
    """How many pieces the tokenizer knows."""
    size: int = tokenizer().get_vocab_size()
    return size


@cache
def tokenizer() -> Tokenizer:
    """WordPiece over the words of the captions; it marks the start and the end."""
    found = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    found.enable_truncation(LONGEST_TEXT)
    found.enable_padding(pad_id=PADDING)
    return found


def text_ids(sentences: Sequence[str]) -> Tensor:
    """The ids of sentences' pieces (B, L), filled up to the longest."""
    return torch.tensor([found.ids for found in tokenizer().encode_batch(list(sentences))])


def _fill(model: dict[str, nn.Module], name: str) -> None:
    """Put the stored weights, which are in half precision, into the towers."""
    stored = load_file(WEIGHTS / f"{name}.safetensors")
    nn.ModuleDict(model).load_state_dict({key: value.float() for key, value in stored.items()})


def _stack(items: Sequence[Any], shape: tuple[int, ...], kind: str) -> Tensor:
    arrays = [np.asarray(item) for item in items]
    for array in arrays:
        if array.shape != shape or array.dtype != np.uint8:
            raise BadInput(
                f"a {kind} of shape {array.shape} and type {array.dtype}; expected "
                f"{' x '.join(map(str, shape))} values of type uint8: resize and convert it first."
            )
    return torch.from_numpy(np.stack(arrays))
