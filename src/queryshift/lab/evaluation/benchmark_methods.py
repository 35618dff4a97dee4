"""A method as a benchmark wants it: the benchmark's temperature, decoupling on diverse streams."""

from __future__ import annotations

from typing import Any

from queryshift.methods import Method
from queryshift.methods.specs import Spec
from queryshift.retrieval.hub_correction import Hubs

from .benchmarks import Benchmark


def method_of(text: str, row: Benchmark) -> Method:
    """The method a spec stands for, with a benchmark's wishes; what the spec says itself wins."""
    spec = Spec.read(text)
    wishes: dict[str, Any] = {}
    if row.temperature is not None and not spec.kind.own_temperature:
        wishes["temperature"] = row.temperature
    if row.diverse:
        wishes |= spec.kind.built_in.get("decoupled", {})
    return spec.make(wishes)


def hubs_of(text: str) -> Hubs | None:
    """The hub correction of a spec, for `Session(..., hubs=)`."""
    return Spec.read(text).hubs
