"""Finished cells of a run, one JSON object a line: written at once, read back whole.

A line that a crash cut short is the last one of its file: reading passes over it, and the next
writing takes its place. Any other damaged line is named, and the rest is read.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from queryshift.errors import BadFile, BadInput
from queryshift.media.item_reading import decoding
from queryshift.support.deprecation import stored_as, stored_name
from queryshift.support.paths import is_there

from .rank_metrics import SECONDS, SUBSET, Ranks, metric

SHOWN = 3  # problems of a file in which nothing can be read
FORMAT = 2  # 1 had the bytes of each rank together
DEPTHS = (1, 5, 10, 50)
_RANK = np.dtype("<u4")

_KINDS: Mapping[str, Any] = {  # of fields that are no text
    **dict.fromkeys(("severity", "seed", "candidates"), int),
    **dict.fromkeys(("seconds", "peak_memory_mb"), int | float | None),
    **dict.fromkeys(("categories", "versions", "settings"), dict),
    **{"ranks": str, "subset_ranks": str | None},
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One method over one shifted stream with one seed: its ranks, and how they came about."""

    benchmark: str
    shift: str
    severity: int
    protocol: str = stored_as("setting")  # "online" or "diverse"
    method: str
    seed: int
    ranks: Ranks = field(compare=False)  # (Q,) of the best right answer, or (Q, R) of all of them
    candidates: int
    label: str = ""  # tells variants of one method apart; the method's name by default
    model: str = ""
    subset_ranks: Ranks | None = field(default=None, compare=False)  # (Q,) among CIRR's few
    categories: Mapping[str, int] = stored_as("groups", default_factory=dict)  # queries of each
    seconds: float | None = None
    peak_memory_mb: float | None = None
    device: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    finished: str = ""  # in UTC, ISO 8601

    def __post_init__(self) -> None:
        ranks = _table(self.ranks)
        categorised = sum(self.categories.values())
        if self.categories and categorised != len(ranks):
            raise BadInput(
                f"the categories {dict(self.categories)} hold {categorised} queries, "
                f"there are ranks of {len(ranks)}."
            )
        object.__setattr__(self, "ranks", ranks)
        if self.subset_ranks is not None:
            object.__setattr__(self, "subset_ranks", _table(self.subset_ranks))
        object.__setattr__(self, "label", self.label or self.method)

    @property
    def key(self) -> tuple[str, str, str, int, str, str, int]:
        """What identifies a cell in a table."""
        place = (self.model, self.benchmark, self.shift, self.severity, self.protocol)
        return (*place, self.label, self.seed)

    @property
    def queries(self) -> int:
        """How many queries were asked."""
        return len(self.ranks)

    @property
    def size(self) -> tuple[int, int]:
        """How many queries were asked, and of how many candidates."""
        return self.queries, self.candidates

    def measure(self, name: str) -> float:
        """A metric of the ranks ("recall@1", "subset_recall@1", "mean_rank", ...), or "seconds"."""
        if name != SECONDS:
            return metric(name).of(self.ranks_for(name), self.categories)
        if self.seconds is None:
            raise BadInput(f"a cell of {self.benchmark}, {self.label}, does not say its seconds.")
        return self.seconds

    def ranks_for(self, name: str) -> Ranks:
        """The ranks that a metric looks at: among all candidates, or in the subset."""
        if not name.startswith(SUBSET):
            return self.ranks
        if self.subset_ranks is None:
            raise BadInput(f'"{name}" needs ranks within a subset; {self.benchmark} has none.')
        return self.subset_ranks


_KEYS = {field.name: stored_name(field) for field in fields(Cell)}  # in files


class Lines(NamedTuple):
    """The cells of a file, and one sentence for each line that cannot be read."""

    cells: list[Cell]
    problems: list[str]


def encode(cell: Cell) -> str:
    """A cell as one line; the metrics beside the ranks are for readers without this library."""
    plain = {key: getattr(cell, name) for name, key in _KEYS.items()}
    computed = {
        "ranks": _pack(cell.ranks),
        "subset_ranks": None if cell.subset_ranks is None else _pack(cell.subset_ranks),
        "answers": cell.ranks.shape[1],
        "queries": cell.queries,
        "recall": {str(k): round(cell.measure(f"recall@{k}"), 4) for k in DEPTHS},
        **{name: round(cell.measure(name), 4) for name in ("mean_rank", "median_rank", "map")},
    }
    return json.dumps({"format": FORMAT} | plain | computed)


def decode(line: str) -> Cell:
    """The cell of a line; only its ranks count, stored metrics are not believed."""
    try:
        stored = json.loads(line)
        if not isinstance(stored, dict):
            raise ValueError(f"it holds a {type(stored).__name__}, not named parts")
        form = stored.get("format", FORMAT)
        if form not in range(1, FORMAT + 1):
            raise ValueError(f"it has format {form}, this version reads up to {FORMAT}")
        ranks = _unpack(stored["ranks"], form).reshape(-1, stored.get("answers", 1))
        if len(ranks) != stored.get("queries", len(ranks)):
            raise ValueError(f"it has {len(ranks)} ranks for {stored['queries']} queries")
        packed = stored.get("subset_ranks")
        subset = None if packed is None else _unpack(packed, form)
        known = {name: stored[key] for name, key in _KEYS.items() if key in stored}
        _check_types(known)
        return Cell(**known | {"ranks": ranks, "subset_ranks": subset})
    except (ValueError, TypeError, AttributeError, RecursionError, zlib.error) as error:
        raise BadFile(f"not a finished cell ({error})") from error
    except KeyError as error:
        raise BadFile(f"not a finished cell (it has no {error})") from error


def _check_types(known: Mapping[str, Any]) -> None:
    """Refuse values that are not of their field's kind."""
    for name, value in known.items():
        kind = _KINDS.get(name, str)
        if isinstance(value, bool) or not isinstance(value, kind):
            raise ValueError(f"its {_KEYS[name]} is {shortened(value)}")
    for group, count in known.get("categories", {}).items():
        if type(count) is not int or count < 1:
            raise ValueError(f"its group {group} is {shortened(count)}, no count of queries")


def write_line(path: str | Path, cell: Cell) -> None:
    """Append a cell and have it on the disk; a half-written line before it is dropped."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        _lock(file.fileno())
        _end_at_a_line(file)
        file.write(encode(cell).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: str | Path) -> Lines:
    """The cells of one file, in the order they were finished."""
    path = Path(path)
    *whole, unfinished = _text(path).split("\n")
    cells, problems = [], []
    for number, line in enumerate([*whole, unfinished], start=1):
        if not line.strip():
            continue
        try:
            cells.append(decode(line))
        except BadFile as error:
            if number <= len(whole):
                problems.append(f"{path}, line {number}: {error}.")
    return Lines(cells, problems)


def _text(path: Path) -> str:
    """The text of a file, which may be compressed with gzip."""
    with decoding(path, "results"):
        body = path.read_bytes()
        whole = gzip.decompress(body) if path.suffix == ".gz" else body
    return whole.decode(errors="replace")


def read_folder(path: str | Path) -> Lines:
    """The cells of a file, or of all below a folder; of a repeated cell, the last.

    Files end in `.jsonl`, or `.jsonl.gz` where they were compressed. A cell over other numbers
    of queries or candidates is another one; cells run again with other settings are a problem.
    """
    path = Path(path)
    files = [path]
    if is_there(path) and path.is_dir():
        files = sorted(file for end in ("", ".gz") for file in path.rglob(f"*.jsonl{end}"))
    parts = [read_lines(file) for file in files]
    problems = [problem for part in parts for problem in part.problems]
    if not any(part.cells for part in parts):
        more = f"and {len(problems) - SHOWN} more lines." if len(problems) > SHOWN else ""
        found = f"{len(files)} file{'' if len(files) == 1 else 's'} that end in .jsonl."
        reason = "\n".join(filter(None, [*problems[:SHOWN], more])) or found
        raise BadFile(f'no finished cell in "{path}": {reason} `queryshift run` writes them.')
    cells = [cell for part in parts for cell in part.cells]
    kept = {_sized(cell): cell for cell in _by_time(cells)}
    return Lines(list(kept.values()), [*problems, *_overruled(cells, kept)])


def latest(cells: Iterable[Cell]) -> list[Cell]:
    """Each cell once: of those with the same key, the one that was finished last."""
    return list({cell.key: cell for cell in _by_time(cells)}.values())


def _by_time(cells: Iterable[Cell]) -> list[Cell]:
    return sorted(cells, key=lambda cell: cell.finished)


def _sized(cell: Cell) -> tuple[Any, ...]:
    return (*cell.key, *cell.size)


def _overruled(cells: Iterable[Cell], kept: Mapping[tuple[Any, ...], Cell]) -> list[str]:
    """A sentence on cells that were run again with other settings."""
    counts = Counter(
        (cell.benchmark, names)
        for cell in cells
        if (names := _other_settings(cell.settings, kept[_sized(cell)].settings))
    )
    return [
        f"{count} cells of {benchmark} were run again with other settings ({', '.join(names)}): "
        "the later ones count."
        for (benchmark, names), count in counts.items()
    ]


def _other_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    shared = sorted((before.keys() & now.keys()) - {"ray_node", "skipped"})
    return tuple(name for name in shared if before[name] != now[name])


def _end_at_a_line(file: BinaryIO) -> None:
    """Drop a last line that a crash cut short, or end it if only the newline is missing."""
    file.seek(0)
    body = file.read()
    tail = body[body.rfind(b"\n") + 1 :]
    if not tail:
        return
    try:
        decode(tail.decode(errors="replace"))
        file.write(b"\n")
    except BadFile:
        file.truncate(len(body) - len(tail))


def _table(ranks: Any) -> Ranks:
    """Ranks (Q,) or (Q, R) as (Q, R)."""
    table = np.asarray(ranks)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or not table.size or table[:, 0].min() < 1:
        raise BadInput(
            f"got ranks of shape {np.shape(ranks)}, expected at least one query and "
            "the rank of its best right answer first, counted from 1."
        )
    return table.astype(_RANK)


def _pack(ranks: Ranks) -> str:
    """The lowest bytes of all ranks, then the next: most of the high ones are zero."""
    planes = ranks.reshape(-1, 1).view(np.uint8).T
    return base64.b64encode(zlib.compress(planes.tobytes(), 9)).decode()


def _unpack(packed: str, form: int) -> Ranks:
    body = zlib.decompress(base64.b64decode(packed))
    if form == 1:
        return np.frombuffer(body, dtype=_RANK)
    planes = np.frombuffer(body, dtype=np.uint8).reshape(_RANK.itemsize, -1)
    return np.ascontiguousarray(planes.T).view(_RANK).ravel()


def _lock(descriptor: int) -> None:
    """Wait until no other process appends; closing the file frees it for the next."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
