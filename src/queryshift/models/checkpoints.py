"""Checkpoints in their authors' own formats, read completely and without running code.

A `Format` says how one group of authors names its weights; a `Checkpoint` is one file of that
format, whose weights `fill` a module. No weight stays random: an error names each weight that is
missing, unknown or of another shape.
"""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from queryshift.errors import BadFile

SUFFIXES = (".pth", ".pt")
Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True)
class Format:
    """How one group of authors writes its checkpoints."""

    name: str
    marks: frozenset[str]  # names of weights; no other format has all of them
    inside: str | None = None  # the entry of the file that holds the weights
    prefix: str = ""  # start of every name
    unused: tuple[str, ...] = ()  # patterns of names that retrieval does not need

    def recognises(self, path: Path) -> bool:
        """Return whether a file has this format, by the names of its weights."""
        if path.suffix not in SUFFIXES or not path.is_file():
            return False
        return self.marks <= self._weights(read(path)).keys()

    def open(self, path: Path) -> Checkpoint:
        """Open a file of this format."""
        return Checkpoint(path, self, self._weights(read(path)))

    def leaves_out(self, name: str) -> bool:
        """Return whether retrieval does not need a weight."""
        return any(re.fullmatch(pattern, name) for pattern in self.unused)

    def _weights(self, held: Any) -> dict[str, Tensor]:
        if self.inside is not None:
            held = held.get(self.inside) if isinstance(held, dict) else None
        if not isinstance(held, dict):
            return {}
        return {
            name.removeprefix(self.prefix): value
            for name, value in held.items()
            if isinstance(name, str) and name.startswith(self.prefix) and isinstance(value, Tensor)
        }


@dataclass(frozen=True)
class Checkpoint:
    """The weights of one file, under their authors' names."""

    path: Path
    format: Format
    weights: dict[str, Tensor]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a weight; a missing one is an error."""
        if name not in self.weights:
            raise self._misfit([name])
        return tuple(self.weights[name].shape)

    def depth(self, prefix: str) -> int:
        """Count the numbered blocks under `prefix`."""
        numbers = (name.removeprefix(prefix).partition(".")[0] for name in self.weights)
        return max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)

    def fill(self, module: Module, authors_name: Callable[[str], str]) -> Module:
        """Fill a module, built on the meta device, with the weights of this file in float32.

        `authors_name` maps the name of a weight to the authors' name.
        """
        wanted = {name: authors_name(name) for name in module.state_dict()}
        known = set(wanted.values())
        extra = {n for n in self.weights.keys() - known if not self.format.leaves_out(n)}
        if extra or known - self.weights.keys():
            raise self._misfit(known - self.weights.keys(), extra)
        for name, empty in module.state_dict().items():
            self._check_shape(wanted[name], tuple(empty.shape))
        full = {name: self.weights[name].to(torch.float32, copy=True) for name in wanted.values()}
        module.load_state_dict({name: full[source] for name, source in wanted.items()}, assign=True)
        _count_positions(module)
        return module.eval()

    def _check_shape(self, name: str, expected: tuple[int, ...]) -> None:
        if self.shape(name) != expected:
            raise BadFile(
                f"{self.path}: {name} has shape {self.shape(name)}, expected {expected} of a "
                f"checkpoint of {self.format.name}."
            )

    def _misfit(self, missing: Collection[str], extra: Collection[str] = ()) -> BadFile:
        faults = []
        if missing:
            faults.append(f"it lacks {_some(missing)}")
        if extra:
            faults.append(f"it has {_some(extra)}, which no part of the model takes")
        return BadFile(
            f"{self.path} does not fit {self.format.name}: {' and '.join(faults)}. "
            "Give the file as its authors published it; nothing was loaded."
        )


def renamed(*renames: tuple[str, str]) -> Callable[[str], str]:
    """Return a function from our names to the authors' that replaces parts, in order."""

    def authors_name(name: str) -> str:
        for ours, authors in renames:
            name = name.replace(ours, authors)
        return name

    return authors_name


def read(path: Path) -> Any:
    """Read a file without running code in it; tensors stay on disk."""
    if not path.is_file():
        raise BadFile(f"there is no file {path}.")
    try:
        return torch.load(
            path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
        )
    except Exception as error:
        raise BadFile(f"{path} cannot be read as a checkpoint: {_reason(path, error)}") from None


def _reason(path: Path, error: Exception) -> str:
    with path.open("rb") as file:
        start = file.read(2)
    if start == b"PK" and not zipfile.is_zipfile(path):
        return "it is cut short. Copy or download it again."
    if isinstance(error, pickle.UnpicklingError) and "GLOBAL" in str(error):
        return (
            "it holds Python objects beside its tensors, and loading those could run code. If you "
            "trust it, read it with torch.load(path, weights_only=False) and save its weights "
            'alone, as {"model": weights} for BLIP, {"Blip2QformerCirAlignPrompt": weights} for '
            "SPRC, and without a key for CAV-MAE."
        )
    return "it is damaged, or no PyTorch file at all."


def _count_positions(module: nn.Module) -> None:
    """Fill the `position_ids` of Hugging Face's text models, which checkpoints do not store."""
    for part in module.modules():
        counter = part._buffers.get("position_ids")
        if counter is not None and counter.is_meta:
            part.position_ids = torch.arange(counter.shape[-1]).expand(1, -1)


def _some(names: Iterable[str], most: int = 5) -> str:
    ordered = sorted(names)
    rest = f" and {len(ordered) - most} more" if len(ordered) > most else ""
    return ", ".join(ordered[:most]) + rest
