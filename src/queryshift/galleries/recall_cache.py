"""Checks of indexes, kept in the user's folder: one small file for each gallery."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from queryshift.support.atomic_files import replacing
from queryshift.support.paths import user_folder

from .engine import EngineGallery

GROWTH = 0.1  # share of its candidates by which a gallery may change before a check is too old


@dataclass(frozen=True)
class CachedRecall:
    """What is remembered of a gallery's check."""

    place: str
    version: str
    candidates: int
    breadth: str  # "ef=256", or nothing
    recall: float  # at ten, of ordinary or shifted queries, whichever is lower
    advice: str
    measured: Any  # everything, for readers of the file


def store_recall(gallery: EngineGallery, recall: float, advice: str, measured: Any) -> None:
    """Write a gallery's check in the place of an earlier one, whole or not at all."""
    state = (gallery.place, gallery.version, gallery.count(), _effort(gallery))
    check = CachedRecall(*state, recall, advice, measured)
    with replacing(_path(gallery)) as temporary:
        temporary.write_text(json.dumps(asdict(check), indent=1))


def cached_recall(gallery: EngineGallery) -> CachedRecall | None:
    """The check that still holds for a gallery.

    None where it was never checked, or checked at another breadth, or has changed since: its
    version, and the number of its candidates by more than a tenth.
    """
    try:
        check = CachedRecall(**json.loads(_path(gallery).read_text()))
    except (OSError, ValueError, TypeError):  # not there, or no check
        return None
    if check.breadth != _effort(gallery):
        return None
    changed = abs(gallery.count() - check.candidates) > GROWTH * check.candidates
    return None if changed and gallery.version != check.version else check


def _effort(gallery: EngineGallery) -> str:
    return str(gallery.search_effort or "")


def _path(gallery: EngineGallery) -> Path:
    known_by = f"{type(gallery).__name__} {gallery.place}".encode()
    return user_folder() / "recall" / f"{blake2b(known_by, digest_size=12).hexdigest()}.json"
