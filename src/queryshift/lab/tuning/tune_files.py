"""Tuning from files: a model by name, with a user's own queries, candidates and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadFile, BadInput
from queryshift.lab.corruptions.files.input_files import CAPTIONS, read_captions
from queryshift.lab.own_traffic.label_free_verdict import Advice, advise
from queryshift.lab.own_traffic.traffic import Traffic, errors_named, traffic
from queryshift.media.item_collection import Collection, as_collection
from queryshift.methods.base import Method
from queryshift.methods.specs import DEFAULT, canonical
from queryshift.sessions.policy import from_spec
from queryshift.sessions.session import Session

from .grid_search import RATES, SAMPLE, TEMPERATURES, Tuned, tune


def tune_files(
    model: Any,
    queries: Path,
    gallery: Path,
    labels: Path | None = None,
    *,
    method: str = "rest",
    rates: Sequence[float] = RATES,
    temperatures: Sequence[float] = TEMPERATURES,
    sample: int = SAMPLE,
    seed: int = 0,
    reference: Path | None = None,
    strict: bool = False,
) -> Tuned:
    """Tune a model by name, with queries and candidates from files.

    Without labels it also says whether to adapt at all; `reference` are queries from before
    any shift. Files and labels that cannot be used are left out and counted; with `strict` the
    first is an error.
    """
    canonical(method)  # before anything long begins
    asked = traffic(model, _read(gallery), _read(queries), answers=labels, strict=strict)
    kind, settings = _adapting(method, asked.encoder)
    with errors_named(asked.encoder):
        tuned = tune(
            asked.encoder,
            asked.gallery,
            asked.queries.items,
            kind,
            rates=rates,
            temperatures=temperatures,
            matches=None if labels is None else asked.matches,
            sample=sample,
            seed=seed,
            settings=settings,
        )
    tuned = replace(tuned, bad=tuple(asked.bad))
    if tuned.labelled or tuned.best is None:
        return tuned
    best = replace(kind, lr=tuned.best.lr, temperature=tuned.best.temperature)
    earlier = None if reference is None else _read(reference)
    advice = advice_on(asked.first(sample), best, earlier, settings)
    return replace(
        tuned, advice=advice, best=None if advice.verdict == "do not adapt" else tuned.best
    )


def advice_on(
    asked: Traffic, method: Method, reference: Any, settings: Mapping[str, Any]
) -> Advice:
    """Advice without labels on adapting to these queries with a method."""
    session = partial(Session, asked.encoder, asked.gallery, method, **settings)
    return advise(asked, method.name, session, reference)


def _read(path: Path) -> Collection:
    """The items of a file or a folder; a caption is its own id, so that labels can name it."""
    if path.suffix.lower() not in CAPTIONS or not path.is_file():
        return as_collection(path)
    texts = list(dict.fromkeys(text for text in read_captions(path).texts if text.strip()))
    if not texts:
        raise BadFile(f'"{path}" holds no captions: expected one a line.')
    return Collection("text", texts, texts)


def _adapting(text: str, encoder: Encoder) -> tuple[Method, dict[str, Any]]:
    """The method of a spec and its sessions' settings; one without a learning rate is refused."""
    method, settings = from_spec(text, encoder, {} if text == DEFAULT else {"guard": None})
    if not method.adapting:
        raise BadInput(
            f'"{text}" has no learning rate, so there is nothing to tune: name a method that '
            "adapts, or compare it with others by `queryshift evaluate`."
        )
    return method, settings
