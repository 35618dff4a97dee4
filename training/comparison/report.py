"""The comparison as a page: rows that REST loses first, then everything.

python -m training.comparison.report RESULTS.jsonl.gz GRID.jsonl.gz > docs/results/tangram.md
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from queryshift.methods import METHODS
from queryshift.significance import draw_seeds, p_values, resampled_means

Line = dict[str, Any]
TASK_NAMES = {
    "image": "image to text",
    "text": "text to image",
    "video": "video to audio",
    "audio": "audio to video",
    "composed": "image + text to image",
}
DRAWS = 5000


def read(path: Path) -> list[Line]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def hits(line: Line, part: int = -1) -> np.ndarray:
    """Whether each query's first answer was right."""
    about = line["parts"][part]
    packed = np.frombuffer(base64.b64decode(line["hits"][part]), np.uint8)
    return np.unpackbits(packed)[: about["last"] - about["first"]].astype(float)


def groups(lines: Iterable[Line], key: Callable[[Line], Any]) -> dict[Any, list[Line]]:
    found: dict[Any, list[Line]] = defaultdict(list)
    for line in lines:
        found[key(line)].append(line)
    return found


def per_seed(lines: list[Line], part: int = -1) -> np.ndarray:
    """Right or not (seeds, queries), the mean over the shifts of each seed."""
    return np.stack(
        [
            np.mean([hits(line, part) for line in some], axis=0)
            for _, some in sorted(groups(lines, lambda line: line["seed"]).items())
        ]
    )


def cell(lines: list[Line], part: int = -1) -> str:
    means = 100 * per_seed(lines, part).mean(axis=1)
    spread = f" ± {means.std(ddof=1):.1f}" if len(means) > 1 else ""
    return f"{means.mean():.1f}{spread}"


def bootstrap(left: np.ndarray, right: np.ndarray) -> tuple[float, float, float, float]:
    """Difference in points, its 95 % interval and p, resampling queries and seeds in pairs."""
    difference = 100 * (left - right)
    rng = np.random.default_rng(0)
    draws = resampled_means(difference, draw_seeds(len(difference), DRAWS, rng), rng)
    low, high = np.percentile(draws, (2.5, 97.5))
    return difference.mean(), low, high, float(p_values(draws))


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def table(rows: list[list[str]], head: list[str]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


def methods_table(
    lines: list[Line], key: Callable[[Line], tuple[str, ...]], head: list[str]
) -> str:
    """One row per key, one column per method; best bold, REST's columns last."""
    rows = []
    names = [m for m in (*METHODS, "rest+decoupled") if any(line["method"] == m for line in lines)]
    for label, some in sorted(groups(lines, key).items()):
        found = groups(some, lambda line: line["method"])
        means = {name: per_seed(found[name]).mean() for name in names if name in found}
        best = max(means.values())
        shown = [
            ""
            if name not in found
            else f"**{cell(found[name])}**"
            if means[name] == best
            else cell(found[name])
            for name in names
        ]
        rows.append([*label, *shown])
    return table(rows, [*head, *names])


def verdicts(lines: list[Line]) -> tuple[list[str], list[str]]:
    """REST against the best other method, per task, setting and severity: lost and not lost."""
    lost, kept = [], []
    key = lambda line: (line["task"], line["name"], line["parts"][0]["severity"])  # noqa: E731
    for (task, setting, severity), some in sorted(groups(lines, key).items()):
        found = {
            name: per_seed(of) for name, of in groups(some, lambda line: line["method"]).items()
        }
        ours = "rest+decoupled" if setting == "diverse" else "rest"
        for mine in dict.fromkeys((ours, "rest")):
            others = {
                n: v for n, v in found.items() if not n.startswith("rest") and n != "tcr_untrained"
            }
            best = max(others, key=lambda name: others[name].mean())
            gain, low, high, p = bootstrap(found[mine], others[best])
            base, *_ = bootstrap(found[mine], found["frozen"])
            words = (
                f"{TASK_NAMES[task]}, {setting}, severity {severity}, `{mine}`: "
                f"{100 * found[mine].mean():.1f} against {best} {100 * others[best].mean():.1f} "
                f"({gain:+.1f} points, 95 % {low:+.1f} to {high:+.1f}, {_p(p)}); "
                f"{base:+.1f} over no adaptation"
            )
            (lost if gain < 0 and p < 0.05 else kept).append(f"- {words}")
    return lost, kept


def parts_table(lines: list[Line], titles: list[str]) -> str:
    rows = []
    for (task, method), some in sorted(groups(lines, lambda x: (x["task"], x["method"])).items()):
        rows.append([TASK_NAMES[task], method, *(cell(some, part) for part in range(len(titles)))])
    return table(rows, ["task", "method", *titles])


def tenth_table(lines: list[Line]) -> str:
    rows = []
    for (task, method), some in sorted(groups(lines, lambda x: (x["task"], x["method"])).items()):
        found = 100 * per_seed(some).mean(axis=0)
        shifted = np.arange(len(found)) % 10 == 0
        rows.append(
            [
                TASK_NAMES[task],
                method,
                f"{found[~shifted].mean():.1f}",
                f"{found[shifted].mean():.1f}",
            ]
        )
    return table(rows, ["task", "method", "the nine clean", "the shifted one"])


def angles_table(lines: list[Line]) -> str:
    rows = []
    for (task, look, method), some in sorted(
        groups(lines, lambda x: (x["task"], x["look"], x["method"])).items()
    ):
        means = [
            np.mean([line.get(name, np.nan) for line in some])
            for name in ("domain_angle", "applied_angle", "drift")
        ]
        stream = "diverse" if look == "plain" else look
        rows.append(
            [
                TASK_NAMES[task],
                stream,
                method,
                *(f"{value:.1f}" for value in means[:2]),
                f"{means[2]:.2f}",
                cell(some),
            ]
        )
    return table(
        rows,
        ["task", "stream", "method", "method's angle", "applied angle", "drift", "recall at 1"],
    )


def grid_table(lines: list[Line]) -> str:
    rows = []
    for (task, method), some in sorted(groups(lines, lambda x: (x["task"], x["method"])).items()):
        points = groups(some, lambda line: (line["lr"], line["temperature"]))
        means = {
            point: np.mean([line["recall"][0]["1"] for line in of]) for point, of in points.items()
        }
        lr, temperature = max(means, key=lambda point: means[point])
        streams = len(points[lr, temperature])
        rows.append(
            [
                TASK_NAMES[task],
                method,
                f"{lr:g}",
                f"{temperature:g}",
                f"{means[lr, temperature]:.1f}",
                f"{min(means.values()):.1f}",
                str(streams),
            ]
        )
    return table(
        rows,
        [
            "task",
            "method",
            "learning rate",
            "temperature",
            "recall at 1",
            "worst of the grid",
            "streams",
        ],
    )


def shifts_table(lines: list[Line], task: str) -> str:
    some = [line for line in lines if line["task"] == task]
    key = lambda line: (line["parts"][0]["shift"], str(line["parts"][0]["severity"]))  # noqa: E731
    return methods_table(some, key, ["shift", "severity"])


def main(results: Path, grid: Path) -> None:
    lines = read(results)
    of = groups(lines, lambda line: line["name"])
    lost, kept = verdicts(of["online"] + of["diverse"])
    seeds = {name: sorted({line["seed"] for line in some}) for name, some in of.items()}
    severity = lambda line: (TASK_NAMES[line["task"]], str(line["parts"][0]["severity"]))  # noqa: E731
    text = TEMPLATE.read_text().format(
        streams=len(lines),
        seeds=", ".join(f"{name}: {len(found)}" for name, found in sorted(seeds.items())),
        lost="\n".join(lost) or "None.",
        kept="\n".join(kept) or "None.",
        online=methods_table(of["online"], severity, ["task", "severity"]),
        diverse=methods_table(of["diverse"], severity, ["task", "severity"]),
        clean=methods_table(of["clean"], lambda line: (TASK_NAMES[line["task"]],), ["task"]),
        tenth=tenth_table(of["tenth"]),
        sequence=parts_table(of["sequence"], ["shift A", "then clean", "then shift B"]),
        forgetting=parts_table(of["forgetting"], ["diverse", "clean afterwards, not adapting"]),
        looks=methods_table(
            of["crayon"] + of["products"],
            lambda line: (line["look"], TASK_NAMES[line["task"]]),
            ["look", "task"],
        )
        if of["crayon"] + of["products"]
        else "Not run.",
        terms=methods_terms(of["terms"]),
        angles=angles_table(of["angles"]),
        grid=grid_table(read(grid)),
        shifts="\n\n".join(
            f"### {TASK_NAMES[task]}\n\n{shifts_table(of['online'], task)}" for task in TASK_NAMES
        ),
    )
    print(text)


def methods_terms(lines: list[Line]) -> str:
    rows = []
    found = groups(lines, lambda line: (line["method"], line["task"]))
    for method in dict.fromkeys(line["method"] for line in lines):
        terms = method.removeprefix("rest:")
        marks = ["x" if term in terms else "" for term in "UCG"]
        rows.append([*marks, *(cell(found[method, task]) for task in ("image", "text"))])
    return table(rows, ["L_U", "L_C", "L_G", "image to text", "text to image"])


TEMPLATE = Path(__file__).with_name("page.md")

if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
