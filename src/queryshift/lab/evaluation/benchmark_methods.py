"""Methods with a benchmark's settings: its temperature, and decoupling on diverse streams."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from queryshift.encoders.encoder import Encoder
from queryshift.encoders.matcher import Matching
from queryshift.galleries import Gallery
from queryshift.methods import Method
from queryshift.methods.specs import DEFAULT, Spec, canonical
from queryshift.retrieval.hubness.hub_correction import Hubs
from queryshift.sessions.policy import from_spec
from queryshift.sessions.session import Session

from .benchmarks import Benchmark


def method_of(text: str, row: Benchmark) -> Method:
    """The method of a spec with a benchmark's settings; the spec's own settings win."""
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


def checked(text: str, row: Benchmark) -> str:
    """The canonical form of a spec, after checking its settings."""
    written = canonical(text)
    if written != DEFAULT:
        method_of(written, row)
    return written


def settings_of(text: str, row: Benchmark, encoder: Encoder) -> dict[str, Any]:
    """All settings of a spec for an encoder; empty for the default, which sessions choose."""
    return {} if text == DEFAULT else asdict(method_of(text, row).resolved(encoder))


def plain_session(text: str, encoder: Encoder, gallery: Gallery, seed: int = 0) -> Session:
    """A fresh session of a spec with its own settings and no guard, or the default."""
    method, settings = from_spec(text, encoder, {} if text == DEFAULT else {"guard": None})
    return Session(encoder, gallery, method, name=text, seed=seed, **settings)


def session_of(
    text: str,
    row: Benchmark,
    encoder: Encoder,
    gallery: Gallery,
    seed: int,
    matcher: Matching | None = None,
) -> Session:
    """A fresh session of a spec, exactly as published and without a guard, or the default."""
    if text == DEFAULT:
        return Session(encoder, gallery, matcher=matcher, seed=seed)
    method, hubs = method_of(text, row), hubs_of(text)
    return Session(encoder, gallery, method, matcher=matcher, hubs=hubs, seed=seed, guard=None)
