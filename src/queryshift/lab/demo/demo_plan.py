"""The plan of a demo: its task, shift, methods and number of queries."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

from queryshift.errors import BadInput, check_known, unknown
from queryshift.lab.corruptions import NAMES, SEVERITIES, Corruption, check_severity, combination
from queryshift.lab.datasets.tangram import TASKS
from queryshift.lab.evaluation.benchmarks import AS_IT_IS, BENCHMARKS, Benchmark, all_shifts
from queryshift.lab.evaluation.corrupted_queries import TRANSLATED, corruption_of
from queryshift.methods.specs import DEFAULT, canonical

DIVERSE = "diverse"
SHOWN = ("frozen", "tent", "shot", "tcr", "rest", DEFAULT)
QUICK, QUICK_QUERIES, QUICK_SHARE = ("frozen", "rest", DEFAULT), 256, 5  # a fifth of the gallery

SECONDS = {
    "image": (20, 0.05),
    "text": (4, 0.09),
    "video": (7, 0.35),
    "audio": (19, 0.20),
    "composed": (7, 0.18),
}
"""Per task, seconds on two cores: for the gallery, and for every shifted query of `SHOWN`."""


class Words(NamedTuple):
    """A task in plain words."""

    queries: str
    question: str


WORDS = {
    "image": Words("images", "Which of {} captions belongs to the image?"),
    "text": Words("captions", "Which of {} images does the caption describe?"),
    "video": Words("silent videos", "Which of {} audio tracks belongs to the silent video?"),
    "audio": Words("audio tracks", "Which of {} silent videos does the audio track belong to?"),
    "composed": Words("edits", "Which of {} images is the one shown, changed as the text says?"),
}


@dataclass(frozen=True)
class DemoPlan:
    """What a demo runs; without a `shift`, the first of the paper's list."""

    task: str = "image"
    shift: str | None = None
    severity: int = 3
    seed: int = 0
    queries: int = 1024
    quick: bool = False
    method: tuple[str, ...] = ()  # beside the frozen model; empty: those of the paper, and default

    def __post_init__(self) -> None:
        if self.quick:
            object.__setattr__(self, "queries", min(self.queries, QUICK_QUERIES))
        check_known("task", self.task, TASKS)
        if self.queries < 2:
            raise BadInput(f"queries is {self.queries}; expected a whole number, 2 or more.")
        check_severity(self.severity)
        object.__setattr__(self, "method", tuple(map(canonical, self.method)))
        if self.named not in shifts(self.task):
            raise unknown(f"shift of {self.task} queries", self.shift, shifts(self.task))

    @property
    def methods(self) -> tuple[str, ...]:
        """Who answers, the frozen model first; `plain_session` gives only the default a guard."""
        if self.method:
            return tuple(dict.fromkeys(("frozen", *self.method)))
        return QUICK if self.quick else SHOWN

    @property
    def named(self) -> str:
        """The shift's name."""
        return shifts(self.task)[0] if self.shift is None else self.shift

    @property
    def words(self) -> Words:
        """The task in plain words."""
        return WORDS[self.task]

    @property
    def shift_in_words(self) -> str:
        """The shift in plain words."""
        name = "a different shift each" if self.named == DIVERSE else self.named.replace("_", " ")
        return f"{name} (severity {self.severity}/{SEVERITIES[-1]})"

    @property
    def in_words(self) -> str:
        """The plan in a sentence."""
        *others, last = self.methods
        methods = f"{', '.join(others)} and {last}" if others else last
        return (
            f"Asking {methods} {self.queries:,} {self.words.queries} under {self.shift_in_words}, "
            f"then {self.queries // 2:,} clean ones. This takes {self.time_in_words} on two cores."
        )

    @property
    def time_in_words(self) -> str:
        """Roughly how long it takes, from measured times of the task."""
        if self.quick:
            return "about 15 seconds"
        fixed, per_query = SECONDS[self.task]
        share = len(self.methods) / len(SHOWN)
        minutes = round((fixed + share * per_query * self.queries) / 60)
        return "about a minute" if minutes <= 1 else f"about {minutes} minutes"

    @property
    def options(self) -> dict[str, object]:
        """The options of the command that asks for this."""
        named = {**asdict(self), "shift": self.named}
        for name in ("quick", "method"):
            del named[name]
        methods = {"method": " --method ".join(self.method)} if self.method else {}
        return named | methods | ({"quick": ""} if self.quick else {})

    @property
    def batch(self) -> int:
        """Queries in a batch: as in the task's benchmark."""
        return self._benchmark.batch

    @property
    def _benchmark(self) -> Benchmark:
        return BENCHMARKS[f"tangram-{'d' if self.named == DIVERSE else 'o'}-{self.task}"]

    def corruption(self) -> Corruption:
        """The corruption of each query."""
        row = self._benchmark
        if self.named != DIVERSE and self.named not in row.shifts:
            return combination(row.query, self.named)  # of a clip's parts, as the paper has them
        corruption = corruption_of(row, AS_IT_IS if row.diverse else self.named)
        if corruption is None:
            raise BadInput(f"the queries of {row.name} are not shifted: take a tangram task.")
        return corruption


def shifts(task: str) -> tuple[str, ...]:
    """The names of all shifts that queries of a task can come under, nothing downloaded."""
    query = TASKS[task][1]
    alone = (name for family in NAMES.get(query, {}).values() for name in family)
    names = dict.fromkeys((*alone, *all_shifts(query), DIVERSE))
    return tuple(name for name in names if name != TRANSLATED)
