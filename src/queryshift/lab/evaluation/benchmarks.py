"""The benchmarks, rows of `benchmarks.toml` with all their settings.

Importing this loads no torch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain, permutations, product
from pathlib import Path
from typing import Any

from queryshift.errors import UnknownName, unknown
from queryshift.lab.corruptions.names import COMBINATIONS, NAMES
from queryshift.lab.datasets.tangram import COMPOSED, SENTENCE, TASKS

MODELS_OWN = "the model's"  # temperature, in the file
AS_IT_IS = ""
"""The shift of a row that has no list of them: queries as they are, or one drawn for each."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One direction of retrieval over one dataset, and the shifts its queries come under."""

    name: str
    series: str  # the paper's name, which the directions of one benchmark share
    dataset: str  # a key of `DATASETS`, or "tangram"
    query: str  # modality of the queries
    gallery: str  # modality of the candidates
    source: str  # the model that is adapted, in words
    model: str = ""  # its name for `load`; empty if users must give a file
    part: str = ""  # of the dataset: a domain of Nocaps, a look of tangram
    split: str = "test"  # tangram's world that queries and candidates are of
    shifts: tuple[str, ...] = (AS_IT_IS,)
    severities: tuple[int, ...] = (5,)  # none: nothing is corrupted
    diverse: bool = False  # every query under a shift of its own; REST decouples its gradients
    batch: int = 64
    temperature: float | None = 0.01  # of the baselines; None: what the encoder recommends
    metric: str = "recall@1"  # the one the paper reports
    categories: tuple[str, ...] = ()  # each with a gallery and a session of its own
    as_published: bool = False  # corrupted as the published scripts do, mistakes included
    sentence: str = "backtranslation"  # the change at the sentence level of combinations
    methods: tuple[str, ...] = ("frozen", "rest")  # of a run that names none
    downloads: bool = False  # the dataset's files, where they are not there
    file: str = ""  # that describes a user's own benchmark

    @property
    def protocol(self) -> str:
        """The paper's OQS or DQS, in a word."""
        return "diverse" if self.diverse else "online"

    @property
    def corrupted(self) -> bool:
        """Whether queries are corrupted, or come from another domain as they are."""
        return bool(self.severities)

    @property
    def clean(self) -> bool:
        """Whether nothing shifted at all: the source's own world as it is."""
        return self.series.endswith("-clean")

    @property
    def on_disk(self) -> bool:
        """Whether the dataset's files are needed."""
        return self.dataset != "tangram"

    @property
    def needs(self) -> tuple[str, ...]:
        """What a user must provide."""
        files = (f"--root ({self.dataset})",) if self.on_disk and not self.file else ()
        files = ("a network",) if self.downloads else files
        return files if self.model else (*files, "--model")


def find(name: str) -> tuple[Benchmark, ...]:
    """The row of this name, all directions of one the paper names ("coco-o"), or a file's."""
    if name.endswith(".toml"):
        from .own_benchmark import read_benchmark

        return (read_benchmark(Path(name)),)
    if name in BENCHMARKS:
        return (BENCHMARKS[name],)
    rows = tuple(row for row in BENCHMARKS.values() if row.series == name)
    if not rows:
        raise UnknownName(
            f"{unknown('benchmark', name, [*BENCHMARKS, *SERIES])} It can also be a TOML file of "
            "your own (docs/your-own-data.md)."
        )
    return rows


def all_shifts(query: str) -> tuple[str, ...]:
    """The shifts of an online benchmark: single corruptions, or combinations of categories."""
    return COMBINATIONS[query] if query in COMBINATIONS else single_shifts(query)


def single_shifts(query: str) -> tuple[str, ...]:
    """Every corruption of a modality alone; of pairs, the combinations."""
    return COMBINATIONS[query] if query == COMPOSED else tuple(chain(*NAMES[query].values()))


def _rows(
    rows: dict[str, dict[str, Any]],
    directions: Sequence[str] = (),
    tasks: Sequence[str] = (),
    **shared: Any,
) -> Iterator[Benchmark]:
    """The rows of one table of the file."""
    for task, (name, own) in product(tasks, rows.items()):
        yield _row(name, shared | _of_task(task) | own, task)
    if tasks:
        return
    for (name, own), sides in product(rows.items(), permutations(directions)):  # or none
        yield _row(name, shared | dict(zip(("query", "gallery"), sides, strict=False)) | own)


def _of_task(task: str) -> dict[str, str]:
    model, query, gallery = (TASKS | SENTENCE)[task]
    source = f'the bundled model "{model}"'
    return {"query": query, "gallery": gallery, "model": model, "source": source}


def _row(template: str, given: dict[str, Any], task: str = "") -> Benchmark:
    settings = {name: _frozen(value) for name, value in given.items()}
    query, shifts = settings["query"], settings.get("shifts")
    if isinstance(shifts, str):
        settings["shifts"] = {"all": all_shifts, "single": single_shifts}[shifts](query)
    if settings.get("temperature") == MODELS_OWN:
        settings["temperature"] = None
    settings.setdefault("series", template.split("-{")[0])
    return Benchmark(name=template.format(query=query, task=task), **settings)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


FILE = files(__package__).joinpath("benchmarks.toml").read_text(encoding="utf-8")
BENCHMARKS: dict[str, Benchmark] = {
    row.name: row for table in tomllib.loads(FILE).values() for row in _rows(**table)
}
"""Every row by name; `find` also knows the paper's names, which may stand for two rows."""

SERIES = tuple(dict.fromkeys(row.series for row in BENCHMARKS.values()))
_OTHERS = ("tangram", "flickr8k", "real-clip", "aws", "msmarco", "pacs", "esc50")
PAPER = tuple(name for name in SERIES if not name.startswith(_OTHERS))
"""The paper's twenty."""
