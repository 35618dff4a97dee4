"""Finding a learning rate and a temperature for a model: a sample of queries over a small grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadInput
from queryshift.galleries import Searchable
from queryshift.galleries.memory.exact_search import best_vectors
from queryshift.lab.own_traffic.label_free_verdict import Advice
from queryshift.media.bad_rows import BadRows
from queryshift.methods.base import Method
from queryshift.methods.frozen import Frozen
from queryshift.methods.rest import REST
from queryshift.sessions.describe import TUNABLE
from queryshift.sessions.session import Session
from queryshift.sessions.session_settings import Settings
from queryshift.support.progress import track

RATES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3)
TEMPERATURES = (0.01, 0.02, 0.05)
SAMPLE, BATCH, FEWEST = 256, 64, 16
AROUND = 10  # neighbours that a query's or a candidate's surroundings are measured by
KEPT = 0.8  # of the source's variety of answers: a session that has less is collapsing
ENOUGH = 0.8  # of the contrast there is to gain: recall stops growing before the contrast does


@dataclass(frozen=True)
class Trial:
    """One point of the grid and its results on the sample."""

    lr: float
    temperature: float
    contrast: float  # how much nearer queries and answers are to each other than to those around
    similarity: float  # mean cosine of a query and its top-1 result
    variety: float  # different top-1 results per query
    recall: float | None = None  # at 1, in percent, over the queries with labels


@dataclass(frozen=True)
class Tuned:
    """All trials and the best; None if nothing was better than not adapting."""

    method: str
    queries: int
    labelled: int
    source: Trial
    trials: tuple[Trial, ...]
    best: Trial | None
    call: str
    """How the method is made, up to its learning rate: "qs.REST(decouple=True, "."""
    around: str = "{}"
    """Where the method goes: "qs.Session(encoder, gallery, {}, hubs=qs.Hubs())" with hubs."""
    advice: Advice | None = None  # without labels: whether to adapt at all
    bad: tuple[BadRows, ...] = ()  # files and labels that were left out

    @property
    def line(self) -> str:
        """Python that makes the recommended method, or its session."""
        if self.best is None:
            return "qs.Frozen()"
        rates = f"lr={self.best.lr:g}, temperature={self.best.temperature:g}"
        return self.around.format(f"{self.call}{rates})")

    @property
    def at_edge(self) -> str | None:
        """ "largest" or "smallest", if the best learning rate is the last of the grid there."""
        rates = sorted({trial.lr for trial in self.trials})
        if self.best is None or len(rates) < 2:
            return None
        return {rates[0]: "smallest", rates[-1]: "largest"}.get(self.best.lr)

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        values = {
            name: value
            for name, value in asdict(self).items()
            if name not in ("call", "around", "bad")
        }
        left_out = {each.what: each.count for each in self.bad}
        return {**values, "left_out": left_out, "line": self.line, "at_edge": self.at_edge}


def tune(
    encoder: Encoder,
    gallery: Searchable,
    queries: Sequence[Any],
    method: Method | None = None,
    *,
    rates: Sequence[float] = RATES,
    temperatures: Sequence[float] = TEMPERATURES,
    matches: Sequence[Sequence[int]] | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Tuned:
    """Adapt to a sample of queries at every point of a grid, and choose one (REST by default).

    `matches` are the positions of each query's right candidates, none for one without a label.
    With labels recall at 1 decides, without them the contrast (`docs/tune.md`). `settings` are the
    sessions'; by default the bare method.
    """
    _check(queries, matches, sample, len(gallery))
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(queries), generator=draw, device="cpu")
    rows = order[:sample].tolist()
    drawn = [queries[row] for row in rows]
    right = [set(matches[row]) if matches else set() for row in rows]
    method = method or REST()
    points = [replace(method, lr=lr, temperature=t) for lr, t in product(rates, temperatures)]
    settings = {"guard": None} if settings is None else settings
    sessions = [
        Session(encoder, gallery, Frozen(), seed=seed, guard=None),
        *(Session(encoder, gallery, point, seed=seed, **settings) for point in points),
    ]
    source, *trials = (_trial(session, drawn, right) for session in track(sessions, "tuning"))
    return Tuned(
        method=type(method).__name__,
        queries=len(drawn),
        labelled=sum(map(bool, right)),
        source=source,
        trials=tuple(trials),
        best=chosen(source, trials),
        call=_call_of(method),
        around=_around(settings),
    )


def chosen(source: Trial, trials: Sequence[Trial]) -> Trial | None:
    """The best trial, if it is better than the source; collapsed trials do not count."""
    valid = [trial for trial in trials if trial.variety >= KEPT * source.variety]
    if source.recall is None:
        valid = _careful(source, valid)
    best = max(valid, key=_worth, default=None)
    return best if best is not None and _worth(best) > _worth(source) else None


def contrast(queries: Tensor, answers: Tensor, around: Tensor) -> float:
    """How much nearer queries (Q, D) and their answers (Q, D) are to each other than to others.

    Twice the cosine of a pair, less that of the query to its nearest candidates `around` (Q, K),
    less that of the answer to its nearest queries (CSLS; Conneau et al., 2018).
    """
    pairs = (queries * answers).sum(dim=1)
    nearest = (answers @ queries.T).topk(min(AROUND, len(queries)), dim=1).values
    return float((2 * pairs - around.mean(dim=1) - nearest.mean(dim=1)).mean())


def _careful(source: Trial, trials: Sequence[Trial]) -> list[Trial]:
    """The trials of the smallest learning rate that gives most of the contrast to be gained."""
    most = max((trial.contrast for trial in trials), default=source.contrast)
    enough = source.contrast + ENOUGH * (most - source.contrast)
    rate = min((trial.lr for trial in trials if trial.contrast >= enough), default=None)
    return [trial for trial in trials if trial.lr == rate]


def _worth(trial: Trial) -> tuple[float, float]:
    """Recall where there are labels; among equals, and without labels, the contrast."""
    return (trial.recall or 0.0, trial.contrast)


def _trial(session: Session, queries: Sequence[Any], right: Sequence[set[int]]) -> Trial:
    """One session over the whole sample."""
    answers = [session.answer(queries[i : i + BATCH]) for i in range(0, len(queries), BATCH)]
    tops = [answer.top(AROUND) for answer in answers]
    first = [int(place) for top in tops for place in top.positions[:, 0]]
    hits = [place in own for place, own in zip(first, right, strict=True) if own]
    vectors = torch.cat([answer.vectors for answer in answers]).cpu()
    around = [session.gallery.search(answer.vectors, AROUND).scores.cpu() for answer in answers]
    pairs = zip(answers, tops, strict=True)
    nearest = torch.cat([best_vectors(a.vectors.cpu(), top.vectors[:, 0]) for a, top in pairs])
    return Trial(
        lr=session.method.rate if session.method.adapting else 0.0,
        temperature=session.method.tau,
        contrast=contrast(vectors, nearest, torch.cat(around)),
        similarity=float((vectors * nearest).sum(dim=1).mean()),
        variety=len(set(first)) / len(first),
        recall=100 * sum(hits) / len(hits) if hits else None,
    )


def _call_of(method: Method) -> str:
    """Python that makes a method, up to its learning rate; a user's own values by their names."""
    kind, arguments = type(method), []
    for field in fields(method):
        name, value = field.name, getattr(method, field.name)
        if isinstance(value, Method):
            arguments.append(f"{_call_of(value).removesuffix(', ')})")
        elif name not in TUNABLE and value is not field.default and value != field.default:
            arguments.append(f"{name}={value!r}" if field.repr else f"{name}={name}")
    home = "qs." if kind.__module__.startswith("queryshift.") else ""
    return f"{home}{kind.__name__}({''.join(f'{argument}, ' for argument in arguments)}"


def _around(settings: Mapping[str, Any]) -> str:
    """Python that makes the session of a method, where it needs more than the method."""
    if settings.get("hubs") is None:
        return "{}"
    order = settings.get("score_from", Settings().score_from)
    more = "" if order == Settings().score_from else f', score_from="{order}"'
    return f"qs.Session(encoder, gallery, {{}}, hubs=qs.Hubs(){more})"


def _check(
    queries: Sequence[Any], matches: Sequence[Sequence[int]] | None, sample: int, candidates: int
) -> None:
    if min(len(queries), sample) < FEWEST:
        raise BadInput(
            f"got a sample of {min(len(queries), sample)} queries, expected at least {FEWEST}: "
            "a few dozen are needed to tell one setting from another."
        )
    if matches is not None and len(matches) != len(queries):
        raise BadInput(
            f"got matches for {len(matches)} of {len(queries)} queries: give one list each, an "
            "empty one where there is no label."
        )
    for place in (place for right in matches or () for place in right):
        if place not in range(candidates):
            raise BadInput(
                f"got {place!r} as a match, expected positions in the gallery, 0 to "
                f"{candidates - 1}: gallery.positions(ids) gives those of ids."
            )
