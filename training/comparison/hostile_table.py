"""The page on hostile streams, from what `training.comparison.hostile` kept.

python -m training.comparison.hostile_table docs/results/hostile.jsonl \\
    docs/research/hostile-streams.md
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from .hostile import BARE, GUARDED
from .hostile_streams import STREAMS

TEMPLATE = Path(__file__).parent / "hostile_page.md"
PARTS = ("recall", "after", "after, adapting")
NAMES = {"rest": "REST", "tcr": "TCR", "shot": "SHOT"}
LIMIT, SHARE = 1.0, 0.9  # points below the frozen model, and of the bare method's gain
Run = tuple[str, str]  # a method and its guard
Means = list[float]  # recall on a stream, then of clean queries without and with adapting
FROZEN: Run = ("frozen", BARE)


@dataclass(frozen=True)
class Runs:
    """The runs of one world: by stream and run, what each seed gave."""

    found: dict[tuple[str, Run], dict[int, Means]]

    @classmethod
    def read(cls, path: Path, world: str) -> Runs:
        """Those that a file keeps."""
        found: dict[tuple[str, Run], dict[int, Means]] = defaultdict(dict)
        for line in map(json.loads, path.read_text().splitlines()):
            if line["world"] == world:
                key = line["stream"], (line["method"], line["guard"])
                found[key][line["seed"]] = [line[part] for part in PARTS]
        return cls(dict(found))

    def means(self, stream: str, *runs: Run) -> tuple[list[Means], int]:
        """The means of several runs over the seeds that all of them have, and how many these are.

        No means, where there are none.
        """
        every = [self.found.get((stream, run), {}) for run in runs]
        seeds = set.intersection(*map(set, every))
        if not seeds:
            return [], 0
        parts = ([one[seed] for seed in seeds] for one in every)
        return [[mean(part) for part in zip(*one, strict=True)] for one in parts], len(seeds)

    def below(self, stream: str, run: Run) -> float:
        """How many points a run is below the frozen model, where it is furthest."""
        (frozen, own), _ = self.means(stream, FROZEN, run)
        return max(one - other for one, other in zip(frozen, own, strict=True))

    def worst(self, stream: str, run: Run) -> float:
        """The same in the seed where it is furthest."""
        frozen, own = self.found[stream, FROZEN], self.found[stream, run]
        seeds = [(frozen[seed], own[seed]) for seed in frozen.keys() & own.keys()]
        return max(one - other for pair in seeds for one, other in zip(*pair, strict=True))

    def share(self, stream: str, run: Run) -> float | None:
        """The share of the bare method's gain on a stream that a run keeps; None without a gain."""
        found, _ = self.means(stream, FROZEN, run, (run[0], BARE))
        if not found:
            return None
        frozen, own, bare = (one[0] for one in found)
        return (own - frozen) / (bare - frozen) if bare - frozen > LIMIT else None

    def guarded(self) -> Iterator[tuple[str, Run]]:
        """Every stream and guarded run that the frozen and the bare method were asked too."""
        for stream, run in self.found:
            if run[1].startswith(GUARDED) and (stream, (run[0], BARE)) in self.found:
                yield stream, run


def name(run: Run) -> str:
    """A run as a column is headed."""
    return f"{method_name(run)}, {run[1]}"


def method_name(run: Run) -> str:
    """The method of a run, as the page spells it."""
    return NAMES.get(run[0], run[0])


def table(runs: Runs, columns: Sequence[Run]) -> str:
    """A row for each stream that all columns were asked."""
    lines = [
        "| stream | seeds | frozen | " + " | ".join(map(name, columns)) + " |",
        "|---|--:|--:|" + "--:|" * len(columns),
    ]
    for stream in STREAMS:
        found, seeds = runs.means(stream, FROZEN, *columns)
        if found:
            cells = " | ".join(f"{on:.1f}; {off:.1f} / {again:.1f}" for on, off, again in found)
            lines.append(f"| {stream} | {seeds} | {cells} |")
    return "\n".join(lines)


def misses(runs: Runs) -> str:
    """Every guarded run that is too far below the frozen model, or keeps too little."""
    lines = []
    for stream, run in runs.guarded():
        below, share = runs.below(stream, run), runs.share(stream, run)
        if below > LIMIT:
            lines.append(
                f"- *{stream}*, {name(run)}: {below:.2f} points below the frozen model on average, "
                f"{runs.worst(stream, run):.2f} in the worst seed"
            )
        if share is not None and share < SHARE:
            lines.append(
                f"- *{stream}*, {name(run)}: keeps {share:.0%} of the unguarded method's gain"
            )
    return "\n".join(lines) or "None."


def counted(runs: Runs) -> str:
    """How many runs there are, and the worst of them."""
    every = list(runs.guarded())
    below, lost = max((runs.below(*one), one) for one in every)
    kept = [(share, one) for one in every if (share := runs.share(*one)) is not None]
    share, least = min(kept)
    return (
        f"A guarded run is a method on a stream, the mean of its seeds. Of {len(every)} guarded "
        f"runs, {method_name(lost[1])} on *{lost[0]}* is furthest below the frozen model, by "
        f"{below:.2f} points. {method_name(least[1])} on *{least[0]}* keeps the smallest share of "
        f"its gain, {share:.0%}."
    )


def page(path: Path) -> str:
    """The whole page."""
    runs = Runs.read(path, "test")
    pairs = {
        label: [(method, guard) for method in methods for guard in (BARE, GUARDED)]
        for label, methods in (
            ("default", ("default",)),
            ("rest", ("rest",)),
            ("others", ("tcr", "shot")),
        )
    }
    return TEMPLATE.read_text().format(
        counted=counted(runs),
        misses=misses(runs),
        **{label: table(runs, columns) for label, columns in pairs.items()},
    )


def main(path: Path, target: Path) -> None:
    target.write_text(page(path))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
