"""A session's history in files: one tensor for each measure, fast to write and small."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from types import NoneType
from typing import Any, get_args, get_type_hints

import numpy as np
import torch
from torch import Tensor

from queryshift.support.deprecation import stored_name

from .batch_stats import BatchStats

NUMBERS = {bool: np.bool_, int: np.int64, float: np.float64}
KINDS = {bool: "b", int: "iu", float: "fiu"}  # array kinds that can hold such numbers
ADDED = {"time": 0.0}  # measures that older files lack, with their defaults


def packed_history(rows: Iterable[Mapping[str, Any]], tensors: dict[str, Tensor]) -> dict[str, Any]:
    """JSON for the statistics of many batches; numbers go into `tensors`, one for each measure.

    A measure that is always None is left out; if some values are None, another tensor marks them.
    """
    keys = {field.name: stored_name(field) for field in fields(BatchStats)}
    rows = [{keys.get(name, name): value for name, value in row.items()} for row in rows]
    if strange := {name for row in rows for name in row} - set(keys.values()):
        raise ValueError(f"a batch has no measure {min(strange)}")
    numbers = _numbers()
    texts: dict[str, dict[int, Any]] = {}
    for name in keys.values():
        values = [row[name] for row in rows if name in row]
        if all(value is None for value in values):
            continue
        if len(values) != len(rows):
            raise KeyError(name)
        if name in numbers:
            _pack_numbers(values, numbers[name], f"history.{name}", tensors)
        else:
            texts[name] = {row: value for row, value in enumerate(values) if value is not None}
    return {"rows": len(rows), "texts": texts}


def unpacked_history(stored: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> list[BatchStats]:
    """The statistics that were packed."""
    rows, texts, numbers = stored["rows"], stored["texts"], _numbers()
    if type(rows) is not int or rows < 0:
        raise ValueError(f"the history has {rows!r} rows")
    columns: list[Sequence[Any]] = []
    for field in fields(BatchStats):
        name = stored_name(field)
        if name in texts:
            by_row = {int(row): value for row, value in texts[name].items()}
            columns.append([by_row.get(row) for row in range(rows)])
        elif f"history.{name}" in tensors:
            columns.append(_unpack_numbers(f"history.{name}", rows, numbers[name], tensors))
        else:
            default = ADDED.get(field.name, None if field.default is MISSING else field.default)
            if rows and default is None and not _may_be_none(field.name):
                raise KeyError(field.name)
            columns.append([default] * rows)
    return [BatchStats(*row) for row in zip(*columns, strict=True)]


def _numbers() -> dict[str, type[bool | int | float]]:
    """The measures that are numbers, by their keys in files, and of which type."""
    hints, found = get_type_hints(BatchStats), {}
    for field in fields(BatchStats):
        kind, *others = {*get_args(hints[field.name])} - {NoneType} or {hints[field.name]}
        if not others and kind in NUMBERS:
            found[stored_name(field)] = kind
    return found


def _may_be_none(name: str) -> bool:
    return NoneType in get_args(get_type_hints(BatchStats)[name])


def _pack_numbers(values: list[Any], kind: type, name: str, tensors: dict[str, Tensor]) -> None:
    absent = np.fromiter((value is None for value in values), np.bool_, len(values))
    if absent.any():
        tensors[f"{name}.none"] = torch.from_numpy(absent)
        values = [kind() if value is None else value for value in values]
    column = np.array(values)
    if column.ndim != 1 or column.dtype.kind not in KINDS[kind]:
        raise ValueError(f"{name} holds something other than {kind.__name__}")
    tensors[name] = torch.from_numpy(column.astype(NUMBERS[kind]))


def _unpack_numbers(
    name: str, rows: int, kind: type, tensors: Mapping[str, Tensor]
) -> Sequence[Any]:
    column, absent = tensors[name].cpu().numpy(), tensors.get(f"{name}.none")
    if column.shape != (rows,) or column.dtype != NUMBERS[kind]:
        raise ValueError(f"{name} is not a column of {rows} numbers")
    values: list[Any] = column.tolist()
    if absent is None:
        return values
    if tuple(absent.shape) != (rows,) or absent.dtype != torch.bool:
        raise ValueError(f"{name}.none is not a column of {rows} marks")
    return [None if gone else value for value, gone in zip(values, absent.tolist(), strict=True)]
