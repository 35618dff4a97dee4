"""Tuning from files: folders of pictures or sounds, captions one a line, labels in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadFile, BadInput, unknown
from queryshift.galleries import Gallery
from queryshift.lab.corruptions.files.formats import CAPTIONS, read_captions
from queryshift.lab.own_traffic.label_free import Advice, advise
from queryshift.lab.own_traffic.own_errors import errors_named
from queryshift.lab.own_traffic.traffic import Traffic
from queryshift.media.audio import AUDIO_SUFFIXES, read_audio
from queryshift.media.bad_rows import BadRows
from queryshift.media.images import IMAGE_SUFFIXES, read_image
from queryshift.media.item_collection import Collection
from queryshift.methods.base import Method
from queryshift.methods.specs import DEFAULT, canonical
from queryshift.models import load
from queryshift.sessions.policy import from_spec
from queryshift.sessions.session import Session
from queryshift.support.progress import track

from .grid_search import RATES, SAMPLE, TEMPERATURES, Tuned, tune

Reader = Callable[[Path], Any]
READERS: Mapping[str, tuple[tuple[str, ...], Reader]] = {
    "image": (IMAGE_SUFFIXES, read_image),
    "audio": (AUDIO_SUFFIXES, read_audio),
}
"""Modality of a folder's files to how they end and how one is read."""


@dataclass(frozen=True)
class Named:
    """Items of one modality, each with a name: its file's, or the caption itself."""

    modality: str
    names: tuple[str, ...]
    items: tuple[Any, ...]


def tune_files(
    model: str,
    queries: Path,
    gallery: Path,
    labels: Path | None = None,
    *,
    method: str = "rest",
    rates: Sequence[float] = RATES,
    temperatures: Sequence[float] = TEMPERATURES,
    sample: int = SAMPLE,
    seed: int = 0,
    ordinary: Path | None = None,
    strict: bool = False,
) -> Tuned:
    """`tune` for a model by name, with queries and candidates from files.

    Without labels it also says whether to adapt at all; `ordinary` are queries as they come when
    all is well. Files and labels that cannot be used are left out and counted; with `strict` the
    first is an error.
    """
    canonical(method)  # before anything long begins
    bad = {what: BadRows(what, strict) for what in ("queries", "candidates", "labels", "samples")}
    query_items = read_items(queries, bad["queries"])
    candidates = read_items(gallery, bad["candidates"])
    encoders = load(model)
    query, other = (_encoder(encoders, items, model) for items in (query_items, candidates))
    names = (query_items.names, candidates.names)
    matches = None if labels is None else read_labels(labels, *names, bad["labels"])
    kind, settings = _adapting(method, query)
    with errors_named(other):
        built = Gallery.build(other, candidates.items)
    with errors_named(query):
        tuned = tune(
            query,
            built,
            query_items.items,
            kind,
            rates=rates,
            temperatures=temperatures,
            matches=matches,
            sample=sample,
            seed=seed,
            settings=settings,
        )
    tuned = replace(tuned, bad=tuple(bad.values()))
    if tuned.labelled or tuned.best is None:
        return tuned
    best = replace(kind, lr=tuned.best.lr, temperature=tuned.best.temperature)
    sampled = replace(query_items, items=query_items.items[:sample])
    usual = None if ordinary is None else read_items(ordinary, bad["samples"]).items
    return advised(tuned, advice_on(query, built, sampled, best, usual, settings))


def _adapting(text: str, encoder: Encoder) -> tuple[Method, dict[str, Any]]:
    """The method of a spec and its sessions' settings; one without a learning rate is refused."""
    method, settings = from_spec(text, encoder, {} if text == DEFAULT else {"guard": None})
    if not method.adapting:
        raise BadInput(
            f'"{text}" has no learning rate, so there is nothing to tune: name a method that '
            "adapts, or compare it with others by `queryshift evaluate`."
        )
    return method, settings


def advice_on(
    encoder: Encoder,
    gallery: Gallery,
    queries: Named,
    method: Method,
    ordinary: Any,
    settings: Mapping[str, Any],
) -> Advice:
    """What can be known without labels of adapting to these queries with a method."""
    count = len(queries.items)
    stream = Traffic(
        model="",
        encoder=encoder,
        gallery=gallery,
        queries=Collection(queries.modality, range(count), queries.items),
        candidates=Collection("item", gallery.ids, gallery.ids),
        matches=[[]] * count,
        shift=None,
        seed=0,
    )

    def session() -> Session:
        return Session(encoder, gallery, method, **settings)

    return advise(stream, method.name, session, ordinary)


def advised(tuned: Tuned, advice: Advice) -> Tuned:
    """The same with the advice, and nothing recommended where it is against adapting."""
    best = None if advice.verdict == "do not adapt" else tuned.best
    return replace(tuned, advice=advice, best=best)


def read_items(path: Path, bad: BadRows) -> Named:
    """The captions of a file, or the pictures or sounds of a folder in the order of their names."""
    if path.is_file():
        if path.suffix.lower() not in CAPTIONS:
            raise BadInput(f'"{path}" is one file: give captions (.txt, .json), or a folder.')
        texts = tuple(text for text in read_captions(path).texts if text.strip())
        if not texts:
            raise BadFile(f'"{path}" holds no captions: expected one a line.')
        return Named("text", texts, texts)
    if not path.is_dir():
        raise BadInput(f'there is no file or folder "{path}".')
    listed = {
        modality: sorted(file for file in path.iterdir() if file.suffix.lower() in endings)
        for modality, (endings, _) in READERS.items()
    }
    modality = max(listed, key=lambda name: len(listed[name]))
    files, read = listed[modality], READERS[modality][1]
    if not files or sum(map(bool, listed.values())) > 1:
        counts = " and ".join(f"{len(some)} of {name}" for name, some in listed.items())
        raise BadInput(f'"{path}" has files {counts}: expected a folder of one of the two.')
    items: dict[str, Any] = {}
    for file in track(files, f"reading {path.name}"):
        with bad.skipping():
            items[file.name] = read(file)
    bad.check(len(files))
    return Named(modality, tuple(items), tuple(items.values()))


def read_labels(
    path: Path, queries: Sequence[str], candidates: Sequence[str], bad: BadRows
) -> list[list[int]]:
    """Positions of right candidates for each query, none for one that the file does not name."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(candidates):
        places.setdefault(name, []).append(place)
    labels, known = _mapping(path), set(queries)
    for query, right in labels.items():
        with bad.skipping():
            if query not in known:
                raise unknown("query", query, sorted(known))
            for name in right:
                if name not in places:
                    raise unknown("candidate", name, list(places))
    bad.check(len(labels))
    return [
        [place for name in labels.get(query, ()) for place in places.get(name, ())]
        for query in queries
    ]


def _mapping(path: Path) -> dict[str, list[str]]:
    try:
        labels = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadFile(f'"{path}" cannot be read as labels: {error}') from error
    if not isinstance(labels, dict) or not all(isinstance(some, list) for some in labels.values()):
        raise BadFile(
            f'"{path}" holds no labels: expected {{"query name": ["candidate name", ...], ...}}.'
        )
    return labels


def _encoder(encoders: Mapping[str, Encoder], items: Named, model: str) -> Encoder:
    if items.modality not in encoders:
        raise BadInput(
            f'"{model}" has no encoder for {items.modality}; it has: {", ".join(sorted(encoders))}.'
        )
    return encoders[items.modality]
