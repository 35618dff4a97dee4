"""Which methods go through which streams of the sealed comparison, and their sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from queryshift import Encoder, Gallery, Guard, Session
from queryshift.lab.datasets.tangram import TASKS
from queryshift.methods.specs import DEFAULT, Spec

from .sealed_streams import SEVERITIES, Stream, streams

KEY = ("frozen", DEFAULT, "rest", "shot", "tcr")  # on three seeds
OTHERS = ("tent", "pl", "eata", "sar", "read", "come", "tsa")  # on one seed, as all that follow
ONE_STEP, GUARDED, BARE = ", one step", ", guarded", ", no guard"
CHEAP = (DEFAULT + ONE_STEP, "rest" + ONE_STEP)  # online at severity 3
COST_OF_GUARD = ("rest+hubs" + GUARDED, "shot+hubs" + GUARDED, DEFAULT + BARE)
WITH_HUBS = ("frozen", "rest", "shot", "rest" + ONE_STEP)  # corrected as well, without a session
DECIDING = ("online", "diverse", "zipf", "clean")
FOR_OTHERS = ("online", "diverse", "clean")
Rates = Mapping[str, Mapping[str, Mapping[str, float]]]
Work = tuple[Stream, tuple[str, ...]]


def works() -> Iterator[Work]:
    """Streams and their methods, what matters most first."""
    for seed, deciding in ((0, True), (0, False), (1, True), (2, True), (1, False), (2, False)):
        for stream in streams(seed):
            if (stream.kind in DECIDING) == deciding:
                yield stream, KEY
    for severity in SEVERITIES:
        some = [one for one in streams(0) if one.severity == severity]
        yield from ((one, CHEAP) for one in some if one.kind == "online" and severity == 3)
        compared = [one for one in some if one.kind in FOR_OTHERS]
        for stream in compared:
            yield stream, OTHERS + (("rest+decoupled",) if stream.kind == "diverse" else ())
        yield from ((one, COST_OF_GUARD) for one in compared)


def session_of(
    stream: Stream, name: str, answering: tuple[Encoder, Gallery], rates: Rates
) -> Session:
    """A session with the rate and temperature that the grid chose; the default has its own."""
    spec, _, form = name.partition(", ")
    settings: dict[str, Any] = {"seed": stream.seed}
    if f", {form}" == ONE_STEP:
        settings["steps"] = 1
    if spec == DEFAULT:
        if f", {form}" == BARE:
            settings["guard"] = None
        return Session(*answering, **settings)
    read = Spec.read(spec)
    chosen = rates["/".join(TASKS[stream.task][:2])].get(spec.removesuffix("+hubs"), {})
    settings["guard"] = Guard() if f", {form}" == GUARDED else None
    return Session(*answering, read.make(chosen), hubs=read.hubs, **settings)
