"""Random numbers that depend on what is corrupted, never on when, where or after what."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from .corruption import Corruption, check_severity

if TYPE_CHECKING:
    from numpy.random import Generator


def generator(
    seed: int, item_id: str | int, corruption_name: str, severity: int | None = None
) -> Generator:
    """The generator of one item under one corruption: the same in every process and on every day.

    Without `severity` the draws are common to all severities, which gives smoother curves.
    """
    from numpy.random import PCG64, Generator, SeedSequence

    key = (str(seed), str(item_id), corruption_name, "" if severity is None else str(int(severity)))
    parts = (part.encode("utf-8", "surrogatepass") for part in key)
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    entropy = int.from_bytes(blake2b(message, digest_size=16).digest(), "big")
    return Generator(PCG64(SeedSequence(entropy)))


def corrupt(
    item: Any,
    corruption: Corruption,
    severity: int,
    *,
    seed: int,
    item_id: str | int,
    common: bool = False,
) -> Any:
    """`item` corrupted with its own generator; `common` draws alike at every severity."""
    level = check_severity(severity)
    rng = generator(seed, item_id, corruption.__name__, None if common else level)
    return corruption(item, level, rng)
