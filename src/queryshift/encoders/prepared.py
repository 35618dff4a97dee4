"""A prepared batch: a tensor, or a mapping or tuple of tensors, whose first axis is the items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from queryshift.errors import BadInput, BadItem
from queryshift.support.torch_modes import without_inference_mode

Prepared: TypeAlias = Tensor | Mapping[str, Tensor] | tuple[Tensor, ...]


@dataclass(frozen=True)
class PreparedItem:
    """One prepared item, as a batch of one; see `Encoder.prepare_item`."""

    batch: Prepared


def tensors(prepared: Prepared) -> Sequence[Tensor]:
    """Every tensor of the batch."""
    if isinstance(prepared, Tensor):
        return (prepared,)
    return tuple(prepared.values()) if isinstance(prepared, Mapping) else tuple(prepared)


def each(prepared: Prepared, function: Callable[[Tensor], Tensor]) -> Prepared:
    """The same structure with `function` applied to every tensor."""
    if isinstance(prepared, Tensor):
        return function(prepared)
    if isinstance(prepared, Mapping):
        return {name: function(tensor) for name, tensor in prepared.items()}
    return tuple(function(tensor) for tensor in prepared)


def move(prepared: Prepared, device: torch.device) -> Prepared:
    """The batch on another device, as tensors that a graph may be built on."""
    _check_kind(prepared)
    return each(
        prepared, lambda tensor: without_inference_mode(tensor).to(device, non_blocking=True)
    )


def take(prepared: Prepared, items: slice) -> Prepared:
    """Some of the items."""
    return each(prepared, lambda tensor: tensor[items])


def count(prepared: Prepared) -> int:
    """How many items there are."""
    return len(tensors(prepared)[0])


def check_several(items: Any) -> None:
    """Refuse a single item as a batch: a text would become a batch of letters."""
    can_be_taken_apart = hasattr(items, "__iter__") or hasattr(items, "__getitem__")
    if getattr(items, "ndim", None) == 0:  # an array or a tensor of one number
        can_be_taken_apart = False
    if isinstance(items, str | bytes | bytearray | Mapping) or not can_be_taken_apart:
        raise BadInput(
            f"got one {type(items).__name__} as a batch, expected a list of items: [item]."
        )


def several(items: Any) -> Sequence[Any]:
    """Items as a sequence that can be cut into batches."""
    check_several(items)
    known = hasattr(items, "__len__") and hasattr(items, "__getitem__")
    return cast("Sequence[Any]", items if known else list(items))


def check(prepared: Prepared, expected: int) -> None:
    """Refuse a batch that is empty, ragged or not finite, naming the item."""
    every = tensors(prepared)
    if not every or expected == 0:
        raise BadInput("got an empty batch, expected at least one query: leave empty batches out.")
    for tensor in every:
        rows = len(tensor) if tensor.ndim else "no"
        if rows != expected:
            raise BadInput(
                f"prepare() gave a tensor of {rows} rows for {expected} items: "
                "the first axis of every tensor must be the items."
            )
        if tensor.is_floating_point() and not tensor.is_meta:
            check_finite(tensor, "item")


def _check_kind(prepared: Any) -> None:
    """Refuse anything but a tensor, or a mapping or tuple of tensors."""
    held = prepared.values() if isinstance(prepared, Mapping) else prepared
    parts = list(held) if isinstance(prepared, Mapping | tuple | list) else [prepared]
    for part in parts:
        if not isinstance(part, Tensor):
            raise BadInput(
                f"prepare() gave a {type(part).__name__}, expected a tensor, or a mapping or tuple "
                "of tensors, each with the items on its first axis."
            )


def check_finite(rows: Tensor, kind: str) -> None:
    """Refuse rows that hold NaN or infinite values, naming the first; an "item" is a `BadItem`."""
    if bool(torch.isfinite(rows).all()):
        return
    bad = (~torch.isfinite(rows)).reshape(len(rows), -1).any(1)
    index = int(bad.nonzero()[0])
    reason = (
        f"holds NaN or infinite values ({int(bad.sum())} of {len(rows)} do): repair or drop it, "
        "then ask again."
    )
    raise BadItem(index, reason) if kind == "item" else BadInput(f"{kind} {index} {reason}")


def joined(parts: Sequence[Prepared]) -> Prepared:
    """Join parts, padded at the end to the longest (a mask marks padding)."""
    first = parts[0]
    if isinstance(first, Tensor):
        return _padded([part for part in parts if isinstance(part, Tensor)])
    columns = zip(*(tensors(part) for part in parts), strict=True)
    joined = [_padded(list(column)) for column in columns]
    if isinstance(first, Mapping):
        return dict(zip(first, joined, strict=True))
    return tuple(joined)


def _padded(column: Sequence[Tensor]) -> Tensor:
    if column[0].ndim < 2:
        return torch.cat(list(column))
    return pad_sequence([row for part in column for row in part], batch_first=True)
