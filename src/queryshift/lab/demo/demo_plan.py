"""What a demo asks: a task, a shift, and how many queries."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

from queryshift.errors import BadInput, unknown
from queryshift.lab.corruptions import NAMES, SEVERITIES, Corruption, check_severity, combination
from queryshift.lab.datasets.tangram_tasks import TASKS
from queryshift.lab.evaluation.benchmarks import AS_IT_IS, BENCHMARKS, Benchmark, all_shifts
from queryshift.lab.evaluation.streams import TRANSLATED, corruption_of

DIVERSE = "diverse"
DEFAULT = "default"  # a session for which no method is named
SHOWN = ("frozen", "tent", "shot", "tcr", "rest", DEFAULT)
QUICK, QUICK_QUERIES, QUICK_SHARE = ("frozen", "rest", DEFAULT), 256, 5  # a fifth of the gallery

SECONDS = {
    "image": (20, 0.05),
    "text": (4, 0.09),
    "video": (7, 0.35),
    "audio": (19, 0.20),
    "composed": (7, 0.18),
}
"""Per task, what a demo takes on two cores: for the gallery, and for every shifted query."""


class Words(NamedTuple):
    """How a task is told to a stranger."""

    queries: str
    question: str


WORDS = {
    "image": Words("pictures", "Which of {} captions belongs to the picture?"),
    "text": Words("captions", "Which of {} pictures does the caption tell of?"),
    "video": Words("silent clips", "Which of {} sounds belongs to the silent clip?"),
    "audio": Words("sounds", "Which of {} silent clips does the sound belong to?"),
    "composed": Words("edits", "Which of {} pictures is the one shown, changed as the text says?"),
}


@dataclass(frozen=True)
class DemoPlan:
    """What is asked; without a `shift`, under the first of the paper's list."""

    task: str = "image"
    shift: str | None = None
    severity: int = 3
    seed: int = 0
    queries: int = 1024
    quick: bool = False

    def __post_init__(self) -> None:
        if self.quick:
            object.__setattr__(self, "queries", min(self.queries, QUICK_QUERIES))
        if self.task not in TASKS:
            raise unknown("task", self.task, TASKS)
        if self.queries < 2:
            raise BadInput(f"queries is {self.queries}; expected a whole number, 2 or more.")
        check_severity(self.severity)
        if self.named not in shifts(self.task):
            raise unknown(f"shift of {self.task} queries", self.shift, shifts(self.task))

    @property
    def methods(self) -> tuple[str, ...]:
        """Who answers."""
        return QUICK if self.quick else SHOWN

    @property
    def named(self) -> str:
        """The shift's name."""
        return shifts(self.task)[0] if self.shift is None else self.shift

    @property
    def words(self) -> Words:
        """The task, told to a stranger."""
        return WORDS[self.task]

    @property
    def shift_in_words(self) -> str:
        """The shift, told to a stranger."""
        name = "a different shift each" if self.named == DIVERSE else self.named.replace("_", " ")
        return f"{name} (severity {self.severity}/{SEVERITIES[-1]})"

    @property
    def in_words(self) -> str:
        """What will be asked, in a sentence."""
        *others, last = self.methods
        methods, asked = f"{', '.join(others)} and {last}", f"{self.queries:,}"
        return (
            f"Asking {methods} {asked} {self.words.queries} under {self.shift_in_words}, "
            f"then {self.queries // 2:,} clean ones. This takes {self.time_in_words} on two cores."
        )

    @property
    def time_in_words(self) -> str:
        """How long it takes, roughly, by what was measured of the task."""
        if self.quick:
            return "about 15 seconds"
        fixed, per_query = SECONDS[self.task]
        minutes = round((fixed + per_query * self.queries) / 60)
        return "about a minute" if minutes <= 1 else f"about {minutes} minutes"

    @property
    def options(self) -> dict[str, object]:
        """The options of the command that asks for this."""
        named = {**asdict(self), "shift": self.named}
        named.pop("quick")
        return named | ({"quick": ""} if self.quick else {})

    @property
    def batch(self) -> int:
        """How many queries come at once: as many as when the task's benchmark is run."""
        return self._benchmark.batch

    @property
    def _benchmark(self) -> Benchmark:
        return BENCHMARKS[f"tangram-{'d' if self.named == DIVERSE else 'o'}-{self.task}"]

    def corruption(self) -> Corruption:
        """What happens to each query."""
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
