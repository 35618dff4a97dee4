"""Bad rows of a file: skipped, counted and named, up to a fifth of the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from queryshift.errors import BadFile, BadInput, Error

NAMED = 10  # rows that are named; the others are only counted
MOST = 0.2  # of a file's rows; with more bad rows it is probably the wrong file


@dataclass
class BadRows:
    """The bad rows of one source.

    Args:
        what: the name of the source for messages, such as "queries".
        strict: whether the first bad row is an error.
    """

    what: str
    strict: bool = False
    count: int = 0
    named: list[str] = field(default_factory=list)

    @contextmanager
    def skipping(self, name: str = "") -> Iterator[None]:
        """Skip the row that fails in this block; give its `name` if the error does not have it."""
        try:
            yield
        except (BadFile, BadInput) as error:
            self.add(error, name)

    def add(self, error: Error, name: str = "") -> None:
        """Count a bad row, or raise its error if `strict`."""
        told = BadFile(f"{self.what}, {name}: {error}") if name else error
        if self.strict:
            raise told
        self.count += 1
        if len(self.named) < NAMED:
            self.named.append(str(told))

    def check(self, total: int) -> None:
        """Refuse a source with too many bad rows.

        Args:
            total: the number of all rows, including bad ones.
        """
        if self.count > MOST * total:
            raise BadFile(
                f"{self.count:,} of {total:,} {self.what} cannot be used, more than "
                f"{100 * MOST:.0f} %: is it the right file, with the right columns? The first: "
                f"{self.named[0]}"
            )

    @property
    def sentences(self) -> list[str]:
        """Sentences that say how many rows were left out, and name the first of them."""
        if not self.count:
            return []
        lines = [
            f"Left out of the {self.what}, as they cannot be used: {self.count:,}.",
            *self.named,
        ]
        more = self.count - len(self.named)
        return [*lines, f"and {more:,} more."] if more else lines
