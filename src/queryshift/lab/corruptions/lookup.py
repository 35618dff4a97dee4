"""Find a corruption by its modality and name; its code is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from queryshift.errors import check_known

from .corruption import Corruption
from .names import MODALITIES


def families(modality: str) -> Mapping[str, tuple[Corruption, ...]]:
    """The corruptions of one modality, by the paper's categories."""
    check_known("modality", modality, MODALITIES)
    table: Mapping[str, tuple[Corruption, ...]] = import_module(
        f".{modality}", __package__
    ).FAMILIES
    return table


def find(modality: str, name: str) -> Corruption:
    """The corruption called `name`, the paper's or another."""
    table = families(modality)
    ours = getattr(import_module(f".{modality}", __package__), "OURS", ())
    known = {one.__name__: one for family in (*table.values(), ours) for one in family}
    check_known(f"{modality} corruption", name, known)
    return known[name]
