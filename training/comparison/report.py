"""The comparison as a page: rows that REST loses first, then everything.

python -m training.comparison.report docs/results > docs/results/tangram.md
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.report import Options, markdown, report
from queryshift.lab.evaluation.report.significance_marks import places
from queryshift.lab.evaluation.report.tables import Entry, Table, tabulate
from queryshift.lab.evaluation.results import Cell, read_folder
from queryshift.lab.evaluation.significance import draw_seeds, p_values, resampled_means
from queryshift.methods import METHODS, OURS

from . import lines
from .lines import TASK_NAMES

DRAWS = 5000
TERMS = {  # which of L_U, L_C and L_G are there
    (1, 0, 0): "rest:entropy=false,gap=false,mining=false",
    (0, 1, 0): "rest:gap=false,uniformity=false",
    (0, 0, 1): "rest:entropy=false,mining=false,uniformity=false",
    (1, 1, 0): "rest:gap=false",
    (1, 0, 1): "rest:entropy=false,mining=false",
    (0, 1, 1): "rest:uniformity=false",
    (1, 1, 1): "rest",
}
TEMPLATE = Path(__file__).with_name("page.md")


def page(folder: Path) -> str:
    cells = read_folder(folder / "tangram").cells
    mixed = lines.read(folder / "tangram-mixtures.jsonl.gz")
    tried = lines.read(folder / "tangram-grid.jsonl.gz")
    online, diverse = of_series(cells, "tangram-o"), of_series(cells, "tangram-d")
    lost, not_lost = verdicts([*online, *diverse])
    named = lines.groups(mixed, lambda line: line["name"])
    return TEMPLATE.read_text().format(
        streams=len(cells) + len(mixed),
        specs=" ".join(f"-m {spec}" for spec in TERMS.values()),
        lost="\n".join(lost) or "None.",
        kept="\n".join(not_lost) or "None.",
        online=averages(online),
        diverse=averages(diverse),
        clean=averages(of_series(cells, "tangram-clean")),
        looks=averages(of_series(cells, "tangram2crayon", "tangram2products")),
        captions=captions(named["captions"]),
        tenth=lines.tenth(named["tenth"]),
        sequence=lines.parts(named["sequence"], ["shift A", "then clean", "then shift B"]),
        forgetting=lines.parts(named["forgetting"], ["diverse", "clean afterwards, not adapting"]),
        guarded=guarded(cells, named["clean"], named["guarded"]),
        angles=lines.angles(named["angles"]),
        terms=terms(read_folder(folder / "tangram-terms").cells, online),
        development=lines.development(tried),
        edge=lines.at_edge(tried),
        grid=lines.grid(tried),
        shifts=markdown(report(online, Options())),
    )


def of_series(cells: Iterable[Cell], *series: str) -> list[Cell]:
    return [cell for cell in cells if BENCHMARKS[cell.benchmark].series in series]


def of_task(cells: Iterable[Cell], task: str) -> list[Cell]:
    return [cell for cell in cells if cell.benchmark.endswith(f"-{task}")]


def grouped(cells: Iterable[Cell], key: Callable[[Cell], Any]) -> dict[Any, list[Cell]]:
    """In the order of the benchmarks, whatever order the cells were finished in."""
    found: dict[Any, list[Cell]] = defaultdict(list)
    for cell in sorted(cells, key=lambda c: (list(BENCHMARKS).index(c.benchmark), c.severity)):
        found[key(cell)].append(cell)
    return found


def place(cell: Cell) -> tuple[str, int]:
    return cell.benchmark, cell.severity


def told(cells: list[Cell]) -> str:
    """Such as "image to text, severity 3"."""
    benchmark, severity = place(cells[0])
    named = (BENCHMARKS[benchmark].part, TASK_NAMES[benchmark.rsplit("-", 1)[1]])
    return ", ".join(filter(None, (*named, f"severity {severity}" if severity else "")))


def averages(cells: list[Cell]) -> str:
    """A row per benchmark and severity, a column per method: means over the shifts."""
    found = {told(some): averaged(some) for some in grouped(cells, place).values()}
    methods = dict.fromkeys(label for table in found.values() for label in table.rows)
    rows = (
        [name, *(shown(table.rows.get(label, (None,))[-1]) for label in methods)]
        for name, table in found.items()
    )
    return lines.table(rows, ["", *methods])


def averaged(cells: list[Cell]) -> Table:
    (table,) = tabulate(cells)
    return places(table)


def shown(entry: Entry | None) -> str:
    if entry is None:
        return ""
    spread = "" if entry.deviation is None else f" ± {entry.deviation:.1f}"
    return f"**{entry.mean:.1f}**{spread}" if entry.place == 1 else f"{entry.mean:.1f}{spread}"


def terms(cells: list[Cell], online: list[Cell]) -> str:
    """The paper's ablation: a row per choice of loss terms; none of them is no adaptation."""
    streams = {(*place(cell), cell.shift, cell.seed) for cell in cells}
    frozen = [cell for cell in online if cell.method == "frozen"]
    cells = [*cells, *(c for c in frozen if (*place(c), c.shift, c.seed) in streams)]
    found = {task: averaged(of_task(cells, task)) for task in ("image", "text")}
    rows = (
        [
            *("x" if one else "" for one in chosen),
            *(shown(t.rows.get(spec, (None,))[-1]) for t in found.values()),
        ]
        for chosen, spec in {(0, 0, 0): "frozen", **TERMS}.items()
    )
    return lines.table(rows, ["L_U", "L_C", "L_G", *(TASK_NAMES[task] for task in found)])


def verdicts(cells: list[Cell]) -> tuple[list[str], list[str]]:
    """REST against the best other method, per benchmark and severity: lost and not lost."""
    lost, kept = [], []
    for (benchmark, _), some in grouped(cells, place).items():
        found = {method: right(own) for method, own in grouped(some, lambda c: c.method).items()}
        others = {n: v for n, v in found.items() if n in METHODS and n not in ("rest", *OURS)}
        best = max(others, key=lambda name: others[name].mean())
        for mine in (name for name in found if name.split(":")[0] == "rest"):
            gain, low, high, p = bootstrap(found[mine], others[best])
            words = (
                f"{told(some)}, {BENCHMARKS[benchmark].protocol}, `{mine}`: "
                f"{100 * found[mine].mean():.1f} against {best} {100 * others[best].mean():.1f} "
                f"({gain:+.1f} points, 95 % {low:+.1f} to {high:+.1f}, {chance(p)}); "
                f"{100 * (found[mine].mean() - found['frozen'].mean()):+.1f} over no adaptation"
            )
            (lost if gain < 0 and p < 0.05 else kept).append(f"- {words}")
    return lost, kept


def captions(some: list[lines.Line]) -> str:
    """Clean text over all captions; a scene's five count as one query in the bootstrap."""
    found = {method: lines.per_seed(own) for (_, method), own in lines.by_method(some)}
    rows = []
    for method, hits in found.items():
        gain, low, high, _ = bootstrap(hits, found["frozen"])
        against = f"{gain:+.2f} ({low:+.2f} to {high:+.2f})" if method != "frozen" else ""
        rows.append([method, f"{100 * hits.mean():.2f}", against])
    return lines.table(rows, ["method", "recall at 1", "against no adaptation, 95 %"])


def guarded(cells: list[Cell], clean: list[lines.Line], shifted: list[lines.Line]) -> str:
    """Clean traffic and every shift by itself, without adaptation, with REST, and guarded."""
    rows = []
    for task, name in TASK_NAMES.items():
        calm, strange = ([one for one in some if one["task"] == task] for some in (clean, shifted))
        places = {(line["parts"][0]["shift"], 3, line["seed"]) for line in strange}
        online = [c for c in cells if c.benchmark == f"tangram-o-{task}"]
        same = [c for c in online if (c.shift, c.severity, c.seed) in places]
        usual = [c for c in cells if c.benchmark == f"tangram-clean-{task}"]
        rows.append([name, *beside(usual, calm, digits=2), *beside(same, strange, digits=1)])
    kinds = ("no adaptation", "rest", "rest, guarded", "learnt from")
    head = [f"{queries}: {kind}" for queries in ("clean", "shifted") for kind in kinds]
    return lines.table(rows, ["task", *head])


def beside(cells: list[Cell], own: list[lines.Line], digits: int) -> list[str]:
    """Recall without adaptation and with REST, then that of guarded streams, and their learning."""
    plain = [right([c for c in cells if c.method == method]) for method in ("frozen", "rest")]
    shown = [f"{100 * one.mean():.{digits}f}" for one in (*plain, lines.per_seed(own))]
    return [*shown, learnt_from(own)]


def learnt_from(some: list[lines.Line]) -> str:
    """The share of batches that a guarded session adapted to."""
    size = BENCHMARKS[f"tangram-o-{some[0]['task']}"].batch
    batches = sum(-(-(p["last"] - p["first"]) // size) for one in some for p in one["parts"])
    return f"{100 * sum(line['adapted'] for line in some) / batches:.0f} %"


def right(cells: list[Cell]) -> np.ndarray:
    """Whether the first answer was right (seeds, queries), the mean over the shifts of a seed."""
    by_seed = grouped(cells, lambda cell: cell.seed)
    return np.stack(
        [np.mean([cell.ranks[:, 0] == 1 for cell in by_seed[s]], axis=0) for s in sorted(by_seed)]
    )


def bootstrap(left: np.ndarray, other: np.ndarray) -> tuple[float, float, float, float]:
    """Difference in points, its 95 % interval and p, resampling queries and seeds in pairs."""
    difference = 100 * (left - other)
    rng = np.random.default_rng(0)
    draws = resampled_means(difference, draw_seeds(len(difference), DRAWS, rng), rng)
    low, high = np.percentile(draws.round(9), (2.5, 97.5))  # ties the same on every machine
    return difference.mean(), low, high, float(p_values(draws))


def chance(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


if __name__ == "__main__":
    print(page(Path(sys.argv[1])))
