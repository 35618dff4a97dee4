"""A collection: a model, its candidates, and how sessions of its tenants are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from PIL import Image

from queryshift.encoders.encoder import Encoder
from queryshift.encoders.vectors import Vectors
from queryshift.errors import BadInput, CannotAdapt, unknown
from queryshift.galleries import EngineGallery, Gallery, Searchable
from queryshift.galleries.hits import Id
from queryshift.methods.base import Method
from queryshift.methods.frozen import Frozen
from queryshift.methods.specs import DEFAULT
from queryshift.models import load
from queryshift.retrieval.hubness.hub_correction import Hubs
from queryshift.sessions.guard import Guard
from queryshift.sessions.policy import from_spec
from queryshift.sessions.reference_queries import ReferenceQueries
from queryshift.sessions.session import Session
from queryshift.sessions.session_settings import ScoreFrom
from queryshift.support.registry import SAMPLE_WORLDS
from queryshift.support.torch_modes import adaptation_modes

from .errors import Conflict
from .samples import FileWorld
from .settings import EMBEDDED, VECTORS, CollectionSettings
from .store.stored_tenant import StoredState

SHAPE, SAMPLES = (64, 64, 3), 16_000  # of an image and audio to try a method with
AT_ONCE = 64  # reference queries that are encoded
SESSION_HISTORY = 4  # batches: a tenant's history is kept apart from its session
Model: TypeAlias = Mapping[str, Encoder]  # by what they encode
UNBOUNDED = Guard(collapse=1.0, spread=0.0)


class World(Protocol):
    """What a collection can show: sample queries, and its candidates."""

    def samples(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Queries to try, those from `start` to before `stop`, each with the right ids for it."""

    def candidate(self, candidate: Id) -> dict[str, Any]:
        """A candidate as it is shown."""

    def reference(self) -> Sequence[Any]:
        """Reference queries as the encoder takes them; none where they are not known."""


@dataclass(frozen=True)
class Collection:
    """One model, one gallery, one method. A value: `with_reference` makes another.

    Args:
        name: of the collection.
        settings: what the file says about it.
        reader: turns queries into vectors.
        encoder: the encoder of its sessions: the reader, or, where a method trains nothing in it,
            one for vectors, so that a query is encoded once to be answered and learnt.
        gallery: the candidates.
        method: how sessions adapt.
        hubs: hub correction, if there is any.
        guard: bounds what queries can do to sessions.
        score_from: the forward that answers a batch that was learnt.
        world: what can be shown of it.
    """

    name: str
    settings: CollectionSettings
    reader: Encoder
    encoder: Encoder
    gallery: Searchable
    method: Method
    hubs: Hubs | None
    guard: Guard | None
    score_from: ScoreFrom
    world: World = field(default_factory=FileWorld)
    source: Session = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", Session(self.encoder, self.gallery, Frozen()))

    @property
    def modality(self) -> str:
        """What one query is: "image", "image+text", "vector"."""
        return self.settings.modality

    @property
    def encodes_first(self) -> bool:
        """Whether sessions are given vectors."""
        return self.encoder is not self.reader

    @cached_property
    def temperature(self) -> float:
        """What differences of scores are divided by to be read as chances."""
        return float(self.session().method.tau)

    @property
    def reference(self) -> ReferenceQueries | None:
        """What reference queries look like, where it is known."""
        return None if self.guard is None else self.guard.reference

    def session(self, **more: Any) -> Session:
        """A session that has learnt nothing.

        Args:
            more: settings of the session, such as its name.
        """
        return Session(self.encoder, self.gallery, self.method, **self.session_settings, **more)

    @property
    def session_settings(self) -> dict[str, Any]:
        """Settings of all its sessions, also of those that are loaded."""
        return {
            "hubs": self.hubs,
            "guard": self.guard,
            "score_from": self.score_from,
            "history": SESSION_HISTORY,
        }

    def opened(self, state: StoredState, same_gallery: bool = False, **more: str) -> Session:
        """The session of a stored state, refused where it does not fit or is damaged.

        Args:
            state: as it is stored.
            same_gallery: whether it must have been learnt over this gallery; those of engines may
                change at any time.
            more: settings of the session, such as its name.
        """
        gallery, settings = self.gallery, {**self.session_settings, **more}
        fixed = same_gallery and not isinstance(gallery, EngineGallery)
        if fixed and state.gallery not in ("", gallery.version):
            raise Conflict("it was learnt over another gallery: roll back to it to use it here.")
        session = Session.load(state.content, self.encoder, gallery, **settings)
        if session.method.name != self.method.name:
            methods = f"it was learnt by {session.method.name}, not by {self.method.name}"
            raise Conflict(f"{methods}: reset the tenant instead.")
        return session

    @adaptation_modes()
    @torch.no_grad()
    def items(self, decoded: Sequence[Any]) -> list[Any]:
        """Queries as the sessions take them: encoded, where they are given vectors."""
        if not self.encodes_first or not decoded:
            return list(decoded)
        return list(self.reader.encode(decoded).float().cpu())

    def with_reference(self, reference: ReferenceQueries) -> Collection:
        """The same with another sample of reference queries."""
        return replace(self, guard=replace(self.guard or UNBOUNDED, reference=reference))

    def measured(self, decoded: Sequence[Any]) -> ReferenceQueries:
        """What these queries look like, as reference queries; their sessions' encoder measures."""
        parts = (decoded[start : start + AT_ONCE] for start in range(0, len(decoded), AT_ONCE))
        items = [item for part in parts for item in self.items(part)]
        return ReferenceQueries.of(self.encoder, self.gallery, items, batch_size=AT_ONCE)

    def about(self) -> dict[str, Any]:
        """What clients are told."""
        guard = None if self.guard is None else asdict(self.guard) | {"reference": None}
        sample = None if self.reference is None else {"queries": self.reference.count}
        return {
            "name": self.name,
            "modalities": self.modality.split("+"),
            "queries": self.modality.split("+") if "+" in self.modality else self.modality,
            "candidates": len(self.gallery),
            "dimension": self.gallery.dimension,
            "method": self.settings.method or self.method.name,
            "temperature": self.temperature,
            "hubs": self.hubs is not None,
            "guard": guard,
            "gather": self.settings.gather,
            "mode": self.settings.mode,
            "keeps_queries": self.settings.keep_queries > 0,
            "reference": sample,
            "ordinary": sample,  # its former name
        }


Current: TypeAlias = Callable[[], Collection]  # the collection as it is now


def open_collection(
    name: str, settings: CollectionSettings, data: Path, device: str | None = None
) -> Collection:
    """A collection with its model loaded and its gallery opened.

    Args:
        name: of the collection.
        settings: what the file says about it.
        data: a folder where what was made may be kept, such as the embedded world's gallery.
        device: where the model runs, if the file does not say.
    """
    device = settings.device or device
    model = {} if settings.model == VECTORS else load(settings.model, device=device)
    world, gallery = _candidates(settings, model, data)
    reader = _reader(settings, model, gallery)
    # without a method tenants adapt as a session without one does
    method, given = from_spec(settings.method or DEFAULT, reader, {"guard": settings.guard or None})
    made = Collection(name, settings, reader, reader, gallery, method, **given, world=world)
    try:
        if not made.session().adaptation.source:  # nothing is trained: vectors are enough
            made = replace(made, encoder=Vectors(gallery.dimension, reader.fingerprint()))
        _try_learning(made)
    except (BadInput, CannotAdapt) as error:
        told = f'collections.{name} cannot run the method "{method.name}": {error}'
        raise BadInput(told) from error
    return made


def _try_learning(collection: Collection) -> None:
    """Learn one batch and forget it: a method may need more than a search engine can give."""
    if isinstance(collection.gallery, EngineGallery):
        modality = "vector" if collection.encodes_first else collection.modality
        seeds = range(max(2, collection.method.smallest_batch))
        items = [_probe(modality, collection.gallery.dimension, seed) for seed in seeds]
        settings = {**collection.session_settings, "guard": None, "steps": 1}
        session = Session(collection.encoder, collection.gallery, collection.method, **settings)
        session.answer(items).top(1)


def _reader(settings: CollectionSettings, model: Model, gallery: Searchable) -> Encoder:
    if settings.model == VECTORS:
        return Vectors(gallery.dimension)
    if "video" in settings.queries.split("+"):
        raise BadInput('videos are not taken over HTTP: encode them, and serve model = "vectors".')
    if settings.queries not in model:
        raise unknown("kind of queries of this model", settings.queries, model)
    return model[settings.queries]


def _candidates(settings: CollectionSettings, model: Model, data: Path) -> tuple[World, Searchable]:
    if settings.gallery != EMBEDDED:
        return FileWorld(settings.samples, settings.strict), Gallery.open(settings.gallery)
    if settings.queries != "image":
        told = f'queries is "{settings.queries}", but the embedded world is asked with images'
        raise BadInput(f"{told}: name a gallery of your own, or leave queries out.")
    tangram = SAMPLE_WORLDS["tangram"](model, settings.candidates)
    return tangram, tangram.gallery(data)


def _probe(modality: str, dimension: int, seed: int) -> Any:
    """A query of noise, as an encoder takes it."""
    draw = np.random.default_rng(seed)
    kinds: dict[str, Any] = {
        "image": Image.fromarray(draw.integers(0, 256, SHAPE, dtype=np.uint8)),
        "audio": draw.uniform(-0.1, 0.1, SAMPLES),
        "vector": draw.normal(size=dimension),
    }
    parts = [kinds.get(kind, f"query {seed}") for kind in modality.split("+")]
    return parts[0] if len(parts) == 1 else tuple(parts)
