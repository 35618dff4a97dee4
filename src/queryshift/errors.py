"""Every error the library raises on purpose, in one tree.

Error
├── BadInput            what was handed over cannot be used            (also a ValueError)
│   ├── BadItem         one item of a batch cannot be used; it has the item's index
│   ├── UnknownName     a name that is in none of the tables           (also a KeyError)
│   ├── GalleryMismatch query and gallery do not fit together
│   └── NeedsVectors    a full-gallery method on a gallery that cannot give its vectors
├── CannotAdapt         the encoder has nothing that can adapt
├── BadFile             a file is damaged, foreign, or not what it claims to be
├── EngineLost          a search engine cannot be reached, or does not answer in time
├── NotAllowed          a token is missing, unknown, or not meant for what was asked
├── ServiceBusy         the service has more requests waiting than it takes
├── ServiceLost         the service cannot be reached, or failed
└── MissingExtra        an optional dependency is not installed        (also an ImportError)
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

WHOLE_TABLE = 12  # names that an error lists; of a longer table it suggests a few
SUGGESTED = 3


class Error(Exception):
    """Anything queryshift refuses to do; its text says what was got, expected, and what to do.

    Every error that the library raises on purpose is one of its subclasses.

    Examples:
        >>> import queryshift as qs
        >>> try:
        ...     qs.METHODS["tnt"]
        ... except qs.Error as error:
        ...     print(str(error)[:37])
        no method "tnt"; did you mean "tent"?
    """


class BadInput(Error, ValueError):
    """What was handed over cannot be used."""


class BadItem(BadInput):
    """One item of a batch cannot be used; without it, the rest of the batch may be.

    `index` is its place in the batch, `reason` what is wrong with it, `kind` what it is.
    """

    def __init__(self, index: int, reason: str, kind: str = "") -> None:
        super().__init__(index, reason, kind)  # so that it can be pickled
        self.index, self.reason, self.kind = index, reason, kind

    def __str__(self) -> str:
        return f"item {self.index}{f', {self.kind}:' if self.kind else ''} {self.reason}"


class UnknownName(BadInput, KeyError):
    """A name that stands in none of the tables."""

    __str__ = Exception.__str__  # KeyError would print the repr


class GalleryMismatch(BadInput):
    """Query vectors and gallery vectors do not fit together."""


class NeedsVectors(BadInput):
    """A method over the whole gallery met a gallery that cannot give its vectors."""


class CannotAdapt(Error):
    """The encoder has nothing that can adapt."""


class BadFile(Error):
    """A file is damaged, foreign, or not what it claims to be."""


class EngineLost(Error):
    """A search engine cannot be reached, or does not answer in time; never shows credentials."""


class NotAllowed(Error):
    """A token is missing, unknown, or not meant for what was asked."""


class ServiceBusy(Error):
    """The service has more requests waiting than it takes; a later one may be answered."""


class ServiceLost(Error):
    """The service cannot be reached, does not answer in time, or failed; never shows the token."""


class MissingExtra(Error, ImportError):
    """An optional dependency is not installed."""


def unknown(kind: str, name: object, known: Iterable[str]) -> UnknownName:
    """The error for a name that is not in a table, with those nearest to it."""
    names = list(known)
    if len(names) > WHOLE_TABLE:
        return UnknownName(f'no {kind} "{name}"; {_nearest(name, names)}')
    near = _like(name, names)[:1]
    hint = f'; did you mean "{near[0]}"?' if near else "."
    return UnknownName(f'no {kind} "{name}"{hint} Known: {", ".join(names)}.')


def check_known(kind: str, name: object, known: Iterable[str]) -> None:
    """Refuse a name that is not in a table."""
    names = list(known)
    if not isinstance(name, str) or name not in names:
        raise unknown(kind, name, names)


def _nearest(name: object, names: list[str]) -> str:
    """Up to three names that are like this one, as a question; else the first three."""
    near = _like(name, names)
    if not near:
        first = ", ".join(f'"{known}"' for known in names[:SUGGESTED])
        return f"there are {first} and {len(names) - SUGGESTED} others."
    *others, last = (f'"{known}"' for known in near)
    return f"did you mean {' or '.join(filter(None, (', '.join(others), last)))}?"


def _like(name: object, names: list[str]) -> list[str]:
    """Up to three names that are like this one: that of its initials (lr), or spelt like it."""
    said = str(name).lower()
    initials = "".join(word[:1] for word in said.split("_"))
    if "_" in said and initials in names:
        return [initials]
    return get_close_matches(said, names, n=SUGGESTED, cutoff=0.4)


def missing(package: str, extra: str, purpose: str) -> MissingExtra:
    """The error for an optional package that a call needs."""
    return MissingExtra(
        f'{purpose} needs the package "{package}", which is not installed: '
        f'pip install "queryshift[{extra}]", or in a clone: pip install -e ".[{extra}]".'
    )
