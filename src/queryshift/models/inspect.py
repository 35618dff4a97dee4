"""Describe a model, and warn of common mistakes in encoders."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from traceback import extract_tb
from typing import Any

import numpy as np
import torch
from torch import Tensor

from queryshift.encoders.adapted_parameters import LayerChoice, is_norm
from queryshift.encoders.encoder import Encoder, unreached
from queryshift.errors import BadInput, CannotAdapt, Error
from queryshift.support.torch_modes import adaptation_modes

from . import load

FLOAT_BYTES = 4
COPIES = 3  # of each adapted parameter: its value and AdamW's two moments
CLOSE = 1e-3


@dataclass(frozen=True)
class Side:
    """The encoder of one modality."""

    modality: str
    encoder: str
    dimensions: int
    vectors_per_item: int
    parameters: int
    norm_layers: int
    adapted_layers: int
    adapted_parameters: int
    session_bytes: int
    """Parameters and optimiser state that each session holds."""


@dataclass(frozen=True)
class Inspection:
    """The sides of a model, and warnings."""

    name: str
    sides: tuple[Side, ...]
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the same as plain values."""
        return asdict(self)


def check(name: str, adapt: LayerChoice = "all", preprocessing: str = "library") -> Inspection:
    """Load a model by name or directory and examine it with a forward and a backward pass."""
    return examine(load(name, adapt=adapt, preprocessing=preprocessing), name)


@adaptation_modes()
def examine(model: Mapping[str, Encoder], name: str) -> Inspection:
    """Examine a loaded model, such as your own."""
    sides, warnings = [], []
    for modality, encoder in model.items():
        items = _items(modality)
        vectors = _encoded(encoder, items, modality)
        sides.append(_side(modality, encoder, vectors))
        warnings += [f"{modality}: {trap}" for trap in _traps(encoder, items, vectors)]
    if len({side.dimensions for side in sides}) > 1:
        sizes = ", ".join(f"{side.modality} {side.dimensions}" for side in sides)
        warnings.append(f"the encoders' vectors cannot be compared: dimensions are {sizes}.")
    return Inspection(name, tuple(sides), tuple(warnings))


def _encoded(encoder: Encoder, items: list[Any], modality: str) -> Tensor:
    try:
        return encoder.encode(items)
    except (Error, OSError):
        raise
    except Exception as error:  # in the user's own code, most likely
        shape = f" of shape {items[0].shape}" if isinstance(items[0], np.ndarray) else ""
        file = getattr(sys.modules.get(type(encoder).__module__), "__file__", None)
        lines = [at.lineno for at in extract_tb(error.__traceback__) if at.filename == file]
        place = f" ({file}, line {lines[-1]})" if lines else ""
        raise BadInput(
            f'{type(encoder).__name__} failed on two items of "{modality}"{shape} with '
            f"{type(error).__name__}: {error}{place}. prepare() and forward() have to take "
            "items of any size."
        ) from error


def _side(modality: str, encoder: Encoder, vectors: Tensor) -> Side:
    adapted = _adapted(encoder)
    count = sum(value.numel() for value in adapted.values())
    return Side(
        modality=modality,
        encoder=type(encoder).__name__,
        dimensions=vectors.shape[-1],
        vectors_per_item=1 if vectors.ndim == 2 else vectors.shape[1],
        parameters=sum(value.numel() for value in encoder.parameters()),
        norm_layers=sum(map(is_norm, encoder.modules())),
        adapted_layers=len({name.rpartition(".")[0] for name in adapted}),
        adapted_parameters=count,
        session_bytes=count * FLOAT_BYTES * COPIES,
    )


def _traps(encoder: Encoder, items: list[Any], vectors: Tensor) -> Iterator[str]:
    """Yield a sentence for each mistake."""
    lengths = vectors.float().norm(dim=-1)
    if not torch.allclose(lengths, torch.ones_like(lengths), atol=1e-2):
        yield (
            f"vectors are not of unit length ({lengths.min():.3g} to {lengths.max():.3g}): "
            "normalise them in forward()."
        )
    if not torch.equal(vectors, encoder.encode(items)):
        yield "the same items gave other vectors the second time: is dropout or sampling on?"
    if (vectors[0] - vectors[1]).abs().max() < CLOSE:
        yield "two different items gave the same vector: were all weights loaded?"
    yield from _adaptation_traps(encoder, items, vectors)


def _adaptation_traps(encoder: Encoder, items: list[Any], vectors: Tensor) -> Iterator[str]:
    params = {name: value.requires_grad_() for name, value in _adapted(encoder).items()}
    if not params:
        yield "no norm layer that can adapt: only Frozen, TSA and TCRUntrained work with it."
        return
    try:
        seen = encoder.through(params, encoder.ready(items))
    except CannotAdapt as error:
        yield str(error)
        return
    if (seen - vectors).abs().max() > 5 * CLOSE:
        yield "seen through its own parameters it gives other vectors: finish(shared(x)) differs."
    pulls = torch.autograd.grad((seen * _uneven(seen)).sum(), [*params.values()], allow_unused=True)
    dead = [name for name, pull in zip(params, pulls, strict=True) if pull is None]
    if len(dead) == len(params):
        yield str(unreached(encoder))
    elif dead:
        yield (
            f"{len(dead)} adapted parameters never reach the vectors, such as {dead[0]}: "
            "leave them out of norm_names."
        )


def _adapted(encoder: Encoder) -> dict[str, Tensor]:
    try:
        return encoder.norm_params()
    except CannotAdapt:
        return {}


def _uneven(vectors: Tensor) -> Tensor:
    """Return a direction with a gradient at unit length."""
    return torch.linspace(-1, 1, vectors.numel(), device=vectors.device).reshape(vectors.shape)


def _items(modality: str) -> list[Any]:
    """Return two different items that every encoder of a modality accepts."""
    draw = np.random.default_rng(0)
    makers: dict[str, Callable[[], list[Any]]] = {
        "image": lambda: [*draw.integers(0, 256, (2, 64, 64, 3), np.uint8)],
        "text": lambda: ["a red square on a beach", "two dogs asleep under a table"],
        "audio": lambda: [*draw.uniform(-0.5, 0.5, (2, 16_000)).astype(np.float32)],
        "video": lambda: [*draw.integers(0, 256, (2, 10, 64, 64, 3), np.uint8)],
    }
    if not all(part in makers for part in modality.split("+")):
        raise BadInput(
            f'no items to try "{modality}" with: known are {", ".join(makers)}. Give a mapping '
            'such as {"text": encoder}, or set modality = "text" in the class of a single encoder.'
        )
    parts = [makers[part]() for part in modality.split("+")]
    return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))
