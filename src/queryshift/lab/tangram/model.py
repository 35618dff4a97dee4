"""The bundled models of the tangram world: scenes and captions, clips, edits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import normalize

from queryshift.encoders.encoder import Encoder
from queryshift.encoders.prepared import Prepared
from queryshift.errors import BadInput
from queryshift.media.audio import waveforms
from queryshift.media.images import images as read_images
from queryshift.media.text import pairs, texts
from queryshift.media.videos import clips as read_clips
from queryshift.models.blocks import BlockEncoder

from . import towers

PATCHES = "patches"  # key of those that are embedded
WEIGHTS = Path(__file__).parent / "weights"


class TangramEncoder(BlockEncoder):
    """An encoder around one of the towers."""

    block_list = "tower.trunk.blocks"
    dimension = 128

    def __init__(self, tower: nn.Module) -> None:
        super().__init__()
        self.tower = tower

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """Vectors (B, 128) of any length."""
        vectors: Tensor = self.tower(*prepared.values())
        return vectors


class PatchEncoder(TangramEncoder):
    """An encoder whose tower looks at patches, which are embedded once per batch."""

    tower: towers.PatchTower

    def begin(self, prepared: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The embedded patches and the other inputs."""
        (_, seen), *others = prepared.items()
        return {PATCHES: self.tower.look(seen), **dict(others)}

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """Vectors (B, 128) of any length."""
        return self.tower.read(*prepared.values())


class ImageEncoder(PatchEncoder):
    """Images; those of another size are brought to 64 x 64."""

    tower: towers.ImageTower

    def prepare(self, items: Sequence[Any]) -> dict[str, Tensor]:
        """The images as one tensor."""
        return {"images": images(items)}

    def finish_for_matcher(self, shared: Mapping[str, Tensor]) -> tuple[Tensor, Prepared]:
        """Unit vectors, and the tokens they were read from."""
        with self.precision():
            tokens = self.tower.tokens(shared[PATCHES])
            return normalize(self.tower.summary(tokens).float(), dim=-1), {"tokens": tokens}


class TextEncoder(TangramEncoder):
    """Sentences."""

    def prepare(self, items: Sequence[str]) -> dict[str, Tensor]:
        """The ids of the sentences' pieces, filled up to the longest."""
        return {"ids": text_ids(items)}

    def finish_for_matcher(self, shared: Mapping[str, Tensor]) -> tuple[Tensor, Prepared]:
        """Unit vectors, and the sentences: the matcher reads them itself, as BLIP's does."""
        return self.finish(shared), {"ids": shared["ids"]}


class VideoEncoder(PatchEncoder):
    """Clips of ten images."""

    def prepare(self, items: Sequence[Any]) -> dict[str, Tensor]:
        """The clips as one tensor."""
        return {"frames": torch.stack([_stacked(clip) for clip in read_clips(items, _ten)])}


class AudioEncoder(PatchEncoder):
    """Audio of 1.28 s; longer audio is cut, shorter audio filled with silence."""

    def prepare(self, items: Sequence[Any]) -> dict[str, Tensor]:
        """The log-mel spectrograms."""
        waves = torch.zeros(len(items), towers.AUDIO_LENGTH)
        for wave, heard in zip(waves, waveforms(items, towers.RATE), strict=True):
            samples = torch.from_numpy(heard)[: towers.AUDIO_LENGTH]
            wave[: len(samples)] = samples
        return {"spectrograms": towers.log_mel(waves)}


class ComposedEncoder(PatchEncoder):
    """Pairs of an image and a sentence that changes it."""

    def prepare(self, items: Sequence[tuple[Any, str]]) -> dict[str, Tensor]:
        """The images, and the ids of the sentences."""
        shown, sentences = pairs(items)
        return {"images": images(shown), "ids": text_ids(sentences)}


def load(name: str) -> dict[str, Encoder]:
    """One of the models, its encoders with the settings that served them best in development."""
    model = {"tangram": scenes, "tangram-clips": clips, "tangram-edits": edits}[name]()
    advice = json.loads((WEIGHTS / "recommended.json").read_text(encoding="utf8"))
    for modality, encoder in model.items():
        encoder.recommended = {**encoder.recommended, **advice.get(f"{name}/{modality}", {})}
    return model


def scenes() -> dict[str, Encoder]:
    """The image and the text tower."""
    image, text = towers.ImageTower(), towers.TextTower(vocabulary())
    fill({"image": image, "text": text}, "tangram")
    return {"image": ImageEncoder(image), "text": TextEncoder(text)}


def clips() -> dict[str, Encoder]:
    """The video and the audio tower."""
    video, audio = towers.VideoTower(), towers.AudioTower()
    fill({"video": video, "audio": audio}, "tangram-clips")
    return {"video": VideoEncoder(video), "audio": AudioEncoder(audio)}


def edits() -> dict[str, Encoder]:
    """The composed-query tower, and the image tower of its gallery."""
    composed, image = towers.ComposedTower(vocabulary()), towers.ImageTower()
    fill({"image+text": composed, "image": image}, "tangram-edits")
    return {"image+text": ComposedEncoder(composed), "image": ImageEncoder(image)}


def fill(towers: Mapping[str, nn.Module], name: str) -> None:
    """Put stored weights, which are in half precision, into towers."""
    stored = load_file(WEIGHTS / f"{name}.safetensors")
    full = {key: value.float() for key, value in stored.items()}
    nn.ModuleDict(towers).load_state_dict(full)


def _ten(clip: Any) -> Any:
    """The clip, if it has ten frames."""
    if len(clip) != towers.FRAMES:
        raise BadInput(
            f"got a clip of {len(clip)} frames, expected {towers.FRAMES}: take ten that are evenly "
            "spaced."
        )
    return clip


def images(items: Sequence[Any]) -> Tensor:
    """Images as one tensor (B, 64, 64, 3) of 8-bit values."""
    return _stacked(read_images(items))


def _stacked(images: Sequence[Image]) -> Tensor:
    side = (towers.SIDE, towers.SIDE)
    scaled = [image if image.size == side else image.resize(side) for image in images]
    return torch.from_numpy(np.stack([np.asarray(image) for image in scaled]))


def text_ids(sentences: Sequence[str]) -> Tensor:
    """The ids of sentences' pieces (B, L), filled up to the longest."""
    return torch.tensor([tokens.ids for tokens in tokenizer().encode_batch(texts(sentences))])


def vocabulary() -> int:
    """How many pieces the tokenizer knows."""
    size: int = tokenizer().get_vocab_size()
    return size


@cache
def tokenizer() -> Tokenizer:
    """WordPiece over the words of the captions; it marks the start and the end."""
    word_pieces = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    word_pieces.enable_truncation(towers.LONGEST_TEXT)
    word_pieces.enable_padding(pad_id=towers.PADDING)
    return word_pieces
