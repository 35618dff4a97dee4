"""Check a dataset on disk: counts beside the publisher's and the paper's, and missing files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile
from queryshift.media.lazy_items import AudioFile, Clip, ImageFile, LazyItems, Source
from queryshift.support.progress import track

from ..dataset import Dataset
from ..known_datasets import DATASETS
from .reader import Reader

COUNTED: Mapping[type, str] = {ImageFile: "images", Clip: "videos", AudioFile: "audio"}
"""What an item with files of its own is counted as; a composed query's image is a candidate."""


@dataclass(frozen=True)
class Count:
    """One number: found here, given by the publisher, given by the paper where it is another."""

    part: str
    what: str
    found: int | None  # None: the part could not be read
    published: int | None  # None: not known
    paper: int | None

    @property
    def short(self) -> bool:
        """Whether less is here than was published."""
        return self.published is not None and (self.found or 0) < self.published


@dataclass(frozen=True)
class Check:
    """The counts of a dataset on disk, its missing files and unusable records."""

    name: str
    root: str
    counts: Sequence[Count]
    missing: Sequence[str]  # files, or a sentence on an annotation that cannot be read
    left_out: Sequence[str]  # sentences on records that cannot be used

    @property
    def complete(self) -> bool:
        """Whether nothing is missing and no count falls short."""
        return not self.missing and not any(count.short for count in self.counts)

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON."""
        return {**asdict(self), "complete": self.complete}


def check(name: str, root: str | Path, part: str | None = None) -> Check:
    """Count one part of a dataset, or those that the paper and the benchmarks use."""
    reader = DATASETS[name]
    parts = [part] if part else list(dict.fromkeys([next(iter(reader.parts)), *reader.paper_parts]))
    counted: dict[str, Mapping[str, int]] = {}
    missing: dict[str, None] = {}
    flaws: dict[str, None] = {}
    for each in parts:
        try:
            dataset = reader(root, part=each)
        except BadFile as error:
            missing[str(error)] = None
        else:
            absent = _missing(dataset)
            counted[each] = _present(dataset, absent)
            missing.update(dict.fromkeys(map(str, absent)))
            flaws.update(dict.fromkeys(dataset.left_out))
    counts = [*_by_part(reader, parts, counted), *_together(reader, counted)]
    return Check(name, str(root), counts, list(missing), list(flaws))


def _missing(dataset: Dataset) -> list[Path]:
    files = dict.fromkeys(path for each in _sources(dataset) for path in each.files)
    listed = track(files, f"looking for the files of {dataset.name}")
    return [path for path in listed if not path.is_file()]


def _present(dataset: Dataset, absent: Sequence[Path]) -> dict[str, int]:
    """The counts of the annotations; of images, clips and audio, less those without a file."""
    gone = set(absent)
    lost = Counter(COUNTED.get(type(item)) for item in _sources(dataset) if gone & set(item.files))
    return {what: count - lost[what] for what, count in dataset.counts.items()}


def _sources(dataset: Dataset) -> dict[Source, None]:
    """Where the items of both sides come from, each once."""
    sides = [side for side in (dataset.queries, dataset.candidates) if isinstance(side, LazyItems)]
    return dict.fromkeys(source for side in sides for source in side.sources)


def _by_part(
    reader: Reader, parts: Sequence[str], counted: Mapping[str, Mapping[str, int]]
) -> list[Count]:
    rows = []
    for part in parts:
        paper = reader.paper if reader.paper_parts == [part] else {}
        for what, published in reader.parts[part].items():
            own = paper.get(what) if paper.get(what) != published else None
            rows.append(Count(part, what, counted.get(part, {}).get(what), published, own))
    return rows


def _together(reader: Reader, counted: Mapping[str, Mapping[str, int]]) -> list[Count]:
    """The sums that the paper counts, where it takes several parts as one."""
    parts = reader.paper_parts
    if len(parts) < 2 or not set(parts) <= set(counted):
        return []
    rows = []
    for what, paper in reader.paper.items():
        published = [reader.parts[part][what] for part in parts]
        total = None if None in published else sum(filter(None, published))
        found = sum(counted[part][what] for part in parts)
        rows.append(Count(" + ".join(parts), what, found, total, paper))
    return rows
