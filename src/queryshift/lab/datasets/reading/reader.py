"""How a dataset is read by name, and what `datasets.toml` says of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from queryshift.errors import BadFile, check_known
from queryshift.media.item_reading import decoding

from ..dataset import Dataset

Counts = Mapping[str, int | None]  # "images", "captions", "pairs", ... to a number, None: not known


class Kind(NamedTuple):
    """The type of a field of an annotation: in words, and as a test of a value."""

    words: str
    fits: Callable[[Any], bool]


TEXT = Kind("a text", lambda value: isinstance(value, str))
NUMBER_OR_TEXT = Kind("a number or a text", lambda value: isinstance(value, int | str))
TEXTS = Kind(
    "a list of texts", lambda value: isinstance(value, list) and all(map(TEXT.fits, value))
)


@dataclass(frozen=True, kw_only=True)
class Reader:
    """One dataset of `datasets.toml`: the ways to ask it, its parts, and the numbers to expect.

    A part is a split, a domain or a category, read on its own.
    """

    name: str
    asks: Sequence[str]  # modalities of queries, the usual one first
    parts: Mapping[str, Counts]  # the publisher's counts of each, the usual part first
    paper_parts: Sequence[str] = ()  # the parts that the paper takes together
    paper: Counts = field(default_factory=dict)  # the paper's counts of them
    source: str = ""  # a sentence on where to get the files
    archives: Sequence[str] = ()  # addresses of zip files that hold all files
    reader: str = ""  # the file of this package that reads it; empty: the one with its name
    annotations: Sequence[str] = ()  # places where a file of the publisher may be
    split_file: str = ""  # the same for a file of one split
    folders: Sequence[str] = ()  # the same for the folder of the images

    def __call__(
        self, root: str | Path, query: str | None = None, part: str | None = None
    ) -> Dataset:
        """Read one part of the dataset under `root`, with queries of modality `query`."""
        query, part = query or self.asks[0], part or next(iter(self.parts))
        check_known(f"way to ask {self.name}", query, self.asks)
        check_known(f"part of {self.name}", part, self.parts)
        home = Path(root).expanduser()
        if not home.is_dir():
            raise self._missing(
                f'there is no folder "{home}": expected the one that holds {self.name}.'
            )
        file = import_module(f"..{self.reader or self.name.replace('-', '_')}", __package__)
        try:
            dataset: Dataset = file.read(self.name, home, part, query)
        except BadFile as error:
            raise self._missing(str(error)) from error
        if not len(dataset):
            reason = " ".join([f'part "{part}": are these other files?', *dataset.left_out[:1]])
            raise self._missing(f'"{home}" has no query of {self.name}, {reason}')
        return dataset

    def _missing(self, what: str) -> BadFile:
        """An error that also says where to get the files."""
        return BadFile(f"{what} {self.source}".strip())


def find_file(root: Path, *names: str) -> Path:
    """The first of these files that is under `root`."""
    for name in names:
        if (root / name).is_file():
            return root / name
    expected = " or ".join(f'"{name}"' for name in names)
    raise BadFile(f'"{root}" has no {expected}: put the publisher\'s file there.')


def find_folder(root: Path, *names: str) -> Path:
    """The first of these folders that is under `root`, or the place of the first."""
    return next((root / name for name in names if (root / name).is_dir()), root / names[0])


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    with decoding(path, "JSON"):
        return json.loads(path.read_text(encoding="utf-8"))


def read_lines(path: Path) -> list[str]:
    """Read the lines of a text file that are not blank."""
    with decoding(path, "text"):
        return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def records(path: Path, content: Any, **fields: Kind) -> Sequence[dict[str, Any]]:
    """`content`, if it is a list of records that all have these fields, of these kinds."""
    if not isinstance(content, list):
        raise BadFile(f'"{path}" holds a {type(content).__name__}, expected a list of records.')
    for number, record in enumerate(content):
        for name, kind in fields.items():
            if not isinstance(record, dict) or name not in record:
                raise BadFile(f'"{path}": record {number} has no "{name}": is it another file?')
            if not kind.fits(record[name]):
                raise BadFile(
                    f'"{path}": the "{name}" of record {number} is {str(record[name])[:60]!r}, '
                    f"expected {kind.words}: take it from the publisher again."
                )
    return content


def developed(name: str, share: float) -> bool:
    """Whether an item of this name is for development; decided by a hash of the name."""
    return int.from_bytes(blake2b(name.encode(), digest_size=4).digest()) < share * 2**32


def parted(
    listed: Sequence[dict[str, Any]], flaw: Callable[[dict[str, Any]], str | None]
) -> tuple[list[dict[str, Any]], list[tuple[dict[str, Any], str]]]:
    """The records without a flaw, and the others, each with its own."""
    checked = [(record, flaw(record)) for record in listed]
    good = [record for record, fault in checked if fault is None]
    return good, [(record, fault) for record, fault in checked if fault is not None]
