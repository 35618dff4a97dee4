"""`evaluate`: what adaptation would do to a user's own queries, method by method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from queryshift.errors import BadInput, CannotAdapt
from queryshift.lab.evaluation.rank_metrics import metric
from queryshift.lab.evaluation.results import Cell, read_lines, write_line
from queryshift.lab.evaluation.significance import draw_seeds, p_values, resampled_means
from queryshift.methods.specs import DEFAULT, canonical
from queryshift.support.deprecation import renamed_arguments

from .label_free_verdict import Advice, advise
from .recommendation import Row, label, recommended
from .replay import BATCH, cell_key, run_method, session_of
from .traffic import Traffic, traffic

METHODS = ("frozen", "frozen+hubs", DEFAULT, "rest")
OF_VECTORS = ("frozen", DEFAULT)  # the default corrects hubs there: nothing can adapt
WITHOUT_LAYERS = ("frozen", "frozen+hubs")  # for an encoder without norm layers
MEASURES = ("recall@1", "recall@5", "recall@10", "mrr", "ndcg@10")
RESAMPLES = 2000
LEVEL = 95


IN_MEMORY = (
    "The candidates of the index were searched in memory. A session over the index itself asks it "
    "for 100 hits and may find less; hubs=qs.Hubs(depth=1000) asks for more."
)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result: a table if right answers are known, else advice."""

    traffic: Traffic
    cells: tuple[Cell, ...]
    rows: tuple[Row, ...]
    advice: Advice | None
    kept: int  # methods whose results were there from before
    use: str  # the method to use: "frozen" where none is better beyond chance
    verdict: str  # the recommendation in a sentence

    @property
    def notes(self) -> list[str]:
        """Notes on the numbers: where candidates were searched, and rows left out."""
        return [*([IN_MEMORY] if self.traffic.of_index else []), *self.bad]

    @property
    def bad(self) -> list[str]:
        """Rows that were left out: how many, and the first of them."""
        return [sentence for each in self.traffic.bad for sentence in each.sentences]

    def as_dict(self) -> dict[str, Any]:
        """Everything but the queries, for JSON."""
        asked = self.traffic
        return {
            "model": asked.model,
            "queries": len(asked.queries),
            "counted": len(asked.counted),
            "candidates": len(asked.candidates),
            "shift": asked.shift and f"{asked.shift.name}:{asked.shift.severity}",
            "left_out": {each.what: each.count for each in asked.bad},
            "methods": [vars(row) for row in self.rows],
            "advice": self.advice and self.advice.as_dict(),
            "use": self.use,
            "verdict": self.verdict,
        }


@renamed_arguments(ordinary="reference")
def evaluate(
    model: Any,
    gallery: Any,
    queries: Any,
    *,
    matches: Any = None,
    clicks: Any = None,
    reference: Any = None,
    methods: Sequence[str] = (),
    shift: str | None = None,
    columns: Mapping[str, str] | None = None,
    results: str | Path | None = None,
    batch_size: int = BATCH,
    seed: int = 0,
    strict: bool = False,
) -> Evaluation:
    """Replay queries in their order with several methods, and compare them with not adapting.

    Args:
        model: what `load` takes; None where queries and candidates are vectors.
        gallery: the candidates: a path (see docs/your-own-data.md), or `{id: item}`.
        queries: the queries, likewise; rows with time stamps are asked in their order.
        matches: right answers, several for a query if need be: a path, or
            `{query id: [candidate id, ...]}`.
        clicks: clicked candidates in their place, likewise; give one of the two.
        reference: queries from before any shift, for advice without labels.
        methods: such as "default", "frozen+hubs" or "tent:lr=0.001"; without any frozen,
            frozen+hubs, default and rest, for vectors frozen and default.
        shift: corrupt the queries first: "gaussian_noise:3".
        columns: names of columns by role: `{"id": "sku"}`.
        results: a file in which finished methods are kept, and found by the next call.
        batch_size: queries that are answered at once.
        seed: of shifts and of what a method draws.
        strict: whether a row that cannot be used is an error; else it is left out and counted.

    Returns:
        An `Evaluation`: `rows` where right answers are known, `advice` where none are; `verdict`
        says what to use.

    Examples:
        >>> import queryshift as qs
        >>> gallery = {"sq": "a red square", "ar": "a blue arrow", "st": "a green star"}
        >>> asked = {1: "a red squre", 2: "the blue arrow", 3: "green star"}
        >>> right = {1: ["sq"], 2: ["ar"], 3: ["st"]}
        >>> done = qs.evaluate("tangram", gallery, asked, matches=right, methods=["frozen"])
        >>> done.rows[0].measures["recall@5"]
        100.0
    """
    if matches is not None and clicks is not None:
        raise BadInput("got matches and clicks: give one of the two.")
    path = None if results is None else Path(results)
    asked = traffic(
        model,
        gallery,
        queries,
        answers=matches if clicks is None else clicks,
        shift=shift,
        columns=columns,
        seed=seed,
        folder=path and path.parent / "galleries",
        strict=strict,
    )
    asked = replace(asked, clicks=clicks is not None)
    specs = _specs(asked, methods)
    if not asked.counted:
        if matches is not None or clicks is not None:
            raise BadInput(
                f"no query has a {label(asked.clicks)} in the gallery: do the ids of the labels "
                f"and of the candidates, such as {asked.candidates.ids[0]!r}, belong together?"
            )
        judged = _judged(specs, methods)
        advice = advise(asked, judged, lambda: session_of(asked, judged), reference, batch_size)
        return Evaluation(asked, (), (), advice, 0, advice.use, advice.sentence)
    cells, kept = _cells(asked, specs, path, batch_size)
    rows = _rows(cells)
    use, sentence = recommended(rows, cells, asked.encoder_in_code, asked.clicks)
    return Evaluation(asked, cells, tuple(rows), None, kept, use, sentence)


def _specs(asked: Traffic, methods: Sequence[str]) -> list[str]:
    """The methods to run, the frozen model first: the others are compared with it."""
    chosen = methods or (OF_VECTORS if asked.queries.modality == "vector" else METHODS)
    if not methods and chosen is METHODS:
        try:
            asked.encoder.norm_params()
        except CannotAdapt:
            chosen = WITHOUT_LAYERS
    return list(dict.fromkeys(["frozen", *map(canonical, chosen)]))


def _judged(specs: Sequence[str], methods: Sequence[str]) -> str:
    """The method that advice without labels is about: the one that was named, or the default."""
    if not methods and DEFAULT in specs:
        return DEFAULT
    return next((spec for spec in specs if spec != "frozen"), DEFAULT)


def _cells(
    asked: Traffic, specs: Sequence[str], path: Path | None, batch: int
) -> tuple[tuple[Cell, ...], int]:
    """The cell of each method, run unless it is kept; each is on disk when it is finished."""
    known: dict[str, Cell] = {}
    if path is not None and path.is_file():
        known = {str(cell.settings.get("key")): cell for cell in read_lines(path).cells}
    cells, kept = [], 0
    for number, spec in enumerate(specs, start=1):
        key = cell_key(asked, spec, batch)
        kept += key in known
        if key not in known:
            label = f"{spec}, method {number} of {len(specs)}: batches"
            known[key] = run_method(asked, spec, key, label, batch)
            if path is not None:
                write_line(path, known[key])
        cells.append(known[key])
    return tuple(cells), kept


def _rows(cells: Sequence[Cell]) -> list[Row]:
    hits = np.stack([metric("recall@1").of_each(cell.ranks) for cell in cells])[:, None]
    rng = np.random.default_rng(0)
    means = resampled_means(hits, draw_seeds(1, RESAMPLES, rng), rng)
    differences = means - means[:, :1]
    tail = (100 - LEVEL) / 2
    low, high = np.percentile(differences, [tail, 100 - tail], axis=0)
    certain = p_values(differences)
    return [
        Row(
            method=cell.method,
            measures={name: round(cell.measure(name), 4) for name in MEASURES},
            difference=float(hits[place].mean() - hits[0].mean()),
            low=float(low[place]),
            high=float(high[place]),
            p=float(certain[place]) if place else 1.0,
            seconds_per_query=(cell.seconds or 0.0) / cell.settings["asked"],
            forwards_per_query=cell.settings["forwards"],
        )
        for place, cell in enumerate(cells)
    ]
