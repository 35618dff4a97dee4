"""One method over the traffic, in the order it came: a cell of ranks, top-1 results and cost."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.lab.evaluation.benchmark_methods import plain_session
from queryshift.lab.evaluation.ranks import relevant_ranks
from queryshift.lab.evaluation.results import Cell
from queryshift.lab.evaluation.runner.machine import device_name, versions
from queryshift.methods.specs import canonical
from queryshift.sessions.events import GuardWarning
from queryshift.sessions.session import Session
from queryshift.support.progress import track

from .traffic import Traffic, errors_named

BATCH = 64
SHOWN = 3  # answers kept of each query
NAME = "own data"


@dataclass(frozen=True)
class Replay:
    """A method's results, query by query in their order."""

    ranks: Tensor  # (C, R) of the right answers of the queries that have any, best first
    top: Tensor  # (Q, SHOWN) positions of the best candidates
    vectors: Tensor  # (Q, D) that the queries were searched with
    seconds: float
    forwards: float  # through the encoder, for each query


def session_of(traffic: Traffic, spec: str) -> Session:
    """A fresh session of a spec over the traffic's gallery."""
    return plain_session(spec, traffic.encoder, traffic.gallery, traffic.seed)


def replay(traffic: Traffic, session: Session, label: str, batch: int = BATCH) -> Replay:
    """Ask all queries in their order; those without a right answer are not counted.

    What the guard does is logged with the session's name; a warning would say it again.
    """
    most = max([1, *map(len, traffic.matches)])
    ranks, top, vectors = [], [], []
    seconds, starts = 0.0, range(0, len(traffic.queries), batch)
    with (
        errors_named(traffic.encoder),
        forwards_counted(traffic.encoder) as forwards,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", GuardWarning)
        for start in track(starts, label):
            rows = range(start, min(start + batch, len(traffic.queries)))
            asked = traffic.batch(rows)
            started = time.perf_counter()
            answer = session.answer(asked)
            top.append(answer.top(SHOWN).positions)
            seconds += time.perf_counter() - started
            vectors.append(answer.vectors.cpu())
            counted = [row - start for row in rows if traffic.matches[row]]
            if counted:
                right = [traffic.matches[start + row] for row in counted]
                found = relevant_ranks(answer.scores()[counted], right)
                ranks.append(torch.nn.functional.pad(found, (0, most - found.shape[1])))
    return Replay(
        torch.cat(ranks) if ranks else torch.zeros(0, most, dtype=torch.long),
        torch.cat(top),
        torch.cat(vectors),
        seconds,
        forwards[0] / len(starts),
    )


@contextmanager
def forwards_counted(encoder: Encoder) -> Iterator[list[int]]:
    """While this lasts, the first number of the list counts the batches through the encoder."""
    count, run = [0], encoder.run_with_params

    def counted(*given: Any) -> Any:
        count[0] += 1
        return run(*given)

    vars(encoder)["run_with_params"] = counted
    try:
        yield count
    finally:
        del vars(encoder)["run_with_params"]


def cell_key(traffic: Traffic, spec: str, batch: int) -> str:
    """The key of a finished cell that can be reused."""
    return f"{traffic.content} {canonical(spec)} {batch}"


def run_method(traffic: Traffic, spec: str, key: str, label: str, batch: int = BATCH) -> Cell:
    """One method, written as in "rest:lr=0.001", as a cell that can be kept on disk."""
    session = session_of(traffic, spec)
    outcome = replay(traffic, session, label, batch)
    return Cell(
        benchmark=NAME,
        shift=traffic.shift.name if traffic.shift else "as it came",
        severity=traffic.shift.severity if traffic.shift else 0,
        protocol="online",
        method=canonical(spec),
        seed=traffic.seed,
        ranks=outcome.ranks.numpy(),
        candidates=len(traffic.candidates),
        model=traffic.model,
        seconds=outcome.seconds,
        device=device_name(traffic.encoder.device),
        versions=versions(),
        settings={
            "key": key,
            "batch": batch,
            "method": asdict(session.method),
            "asked": len(traffic.queries),
            "forwards": outcome.forwards,
            "top": outcome.top.tolist(),
        },
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
