"""Run small query streams through the queryshift on the path and store what came out.

    PYTHONPATH=CHECKOUT/src python tools/stream_worker.py OUTPUT [--streams PATTERN ...]

`compare_streams.py` runs this in one process for each of two checkouts. Only public names are
used, from the place where a checkout has them. A stream is called TASK/METHOD or
TASK/METHOD/KIND, such as "image/rest/shadow"; TASK/items are the queries and the gallery.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import queryshift as qs

TASKS = {
    "image": ("tangram", "image", "text"),
    "text": ("tangram", "text", "image"),
    "audio": ("tangram-clips", "audio", "video"),
    "composed": ("tangram-edits", "image+text", "image"),
}
"""Task to its model, the queries' modality and the candidates'."""

SHIFTS = {"image": "gaussian_noise", "text": "ocr", "audio": "gaussian_noise"}
SCENES, CLIPS, EDITS = 120, 80, 100
SIZES = {"image": (12, 4), "text": (12, 4), "audio": (6, 3), "composed": (6, 3)}
"""Task to the size of a batch and the number of batches."""

UNSHIFTED = 2  # this batch of a stream has ordinary queries
ORDINARY = 48  # queries that a guard knows as ordinary
WRAPPED = ("tent", "pl", "shot", "eata", "sar", "read", "come", "tcr", "rest")
REFINED = ("tent", "pl", "shot", "eata", "sar", "read", "come")
FEW = ("tent", "tsa", "rest", "tcr_untrained")
MORE = ("frozen", "eata", "tcr", *FEW)
HITS = 10


def lab(name: str) -> Any:
    """A module of the laboratory, which once was part of the package's root."""
    try:
        return import_module(f"queryshift.lab.{name}")
    except ModuleNotFoundError:
        return import_module(f"queryshift.{name}")


@dataclass(frozen=True)
class Ground:
    """What the streams of one task share."""

    task: str
    model: Mapping[str, Any]
    gallery: Any
    items: Sequence[Any]
    ordinary: Sequence[Any]
    batches: Sequence[tuple[list[Any], list[list[int]] | None]]
    """Queries, and what to exclude for each of them."""

    @property
    def encoder(self) -> Any:
        """The encoder of the queries."""
        return self.model[TASKS[self.task][1]]


def shifted(task: str, item: Any, number: int) -> Any:
    """A query with its task's corruption; of a composed one, both halves are corrupted."""
    corruptions = lab("corruptions")
    if task == "composed":
        picture, text = item
        return shifted("image", picture, number), shifted("text", text, number)
    corruption = corruptions.find(task, SHIFTS[task])
    return corruptions.corrupt(item, corruption, 3, seed=0, item_id=number)


@cache
def ground(task: str, wide: bool = False) -> Ground:
    """The model, queries and candidates of a task; `wide` is in float64."""
    model = qs.load(TASKS[task][0])
    if wide:
        model = {name: encoder.double() for name, encoder in model.items()}
    queries, items, exclude = _items(task)
    gallery = qs.Gallery.build(model[TASKS[task][2]], items)
    batches = [_batch(task, number, queries, exclude) for number in range(SIZES[task][1])]
    return Ground(task, model, gallery, items, queries[-ORDINARY:], batches)


def _batch(
    task: str, number: int, queries: list[Any], exclude: list[list[int]] | None
) -> tuple[list[Any], list[list[int]] | None]:
    """One batch of a stream, shifted but for one, with what to exclude."""
    size = SIZES[task][0]
    rows = range(number * size, (number + 1) * size)
    batch = [queries[row] for row in rows]
    if number != UNSHIFTED:
        batch = [shifted(task, query, row) for query, row in zip(batch, rows, strict=True)]
    return batch, exclude and [exclude[row] for row in rows]


def _items(task: str) -> tuple[list[Any], list[Any], list[list[int]] | None]:
    """Queries, candidates, and for composed queries the place of each one's own picture."""
    tangram = lab("tangram")
    if task == "audio":
        clips = tangram.clips("test", CLIPS)
        return [clip.waveform() for clip in clips], [clip.frames() for clip in clips], None
    if task == "composed":
        edits = tangram.edits("test", EDITS)
        scenes = tangram.candidates(edits)
        place = {scene.content(): number for number, scene in enumerate(scenes)}
        own = [[place[edit.reference.content()]] for edit in edits]
        return [edit.query() for edit in edits], [scene.image() for scene in scenes], own
    scenes = tangram.scenes("test", SCENES)
    pictures = [scene.image() for scene in scenes]
    captions = [tangram.captions(scene) for scene in scenes]
    if task == "image":
        return pictures, [text for texts in captions for text in texts], None
    return [texts[0] for texts in captions], pictures, None


@dataclass(frozen=True)
class Kind:
    """A way to run a session: settings made from the ground, and what happens at a batch."""

    options: Callable[[Ground], dict[str, Any]] = lambda ground: {}
    answer: Callable[[Any, Ground, Any, Any], tuple[Any, Any]] | None = None
    wide: bool = False
    tasks: tuple[str, ...] = ("image",)
    methods: tuple[str, ...] = FEW


def _ordinary(ground: Ground) -> Any:
    renamed = hasattr(qs, "ReferenceQueries")
    kind = qs.ReferenceQueries if renamed else qs.Ordinary
    sample = kind.of(ground.encoder, ground.gallery, ground.ordinary)
    return qs.Guard(reference=sample) if renamed else qs.Guard(ordinary=sample)


def _matcher(ground: Ground) -> Any:
    models = import_module("queryshift.models")
    return models.matcher(ground.model, TASKS[ground.task][1]).over(ground.items)


def _excluding(session: Any, ground: Ground, batch: Any, _: Any) -> tuple[Any, Any]:
    """Leave out some candidates of each query, another number for each."""
    ids = [list(range(row, 40 * (row % 4), 7)) for row in range(len(batch))]
    return session, session.answer(batch, exclude=ids)


def _waiting(session: Any, ground: Ground, batch: Any, exclude: Any) -> tuple[Any, Any]:
    answer = session.answer(batch, exclude=exclude)
    session.wait()
    return session, answer


def _undoing(session: Any, ground: Ground, batch: Any, exclude: Any) -> tuple[Any, Any]:
    """Answer in another order, take that back, and answer."""
    session.answer(batch[::-1], exclude=exclude)
    session.undo()
    return session, session.answer(batch, exclude=exclude)


def _saving(session: Any, ground: Ground, batch: Any, exclude: Any) -> tuple[Any, Any]:
    """Answer, save, and go on with what is loaded."""
    answer = session.answer(batch, exclude=exclude)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.safetensors"
        session.save(path)
        return qs.Session.load(path, ground.encoder, ground.gallery), answer


def _not_adapting(session: Any, ground: Ground, batch: Any, exclude: Any) -> tuple[Any, Any]:
    """Adapt to a batch, then answer it again without."""
    session.answer(batch, exclude=exclude)
    return session, session.answer(batch, adapt=False, exclude=exclude)


KINDS = {
    "matcher": Kind(
        lambda ground: {"matcher": _matcher(ground)}, tasks=("image", "text"), methods=MORE
    ),
    "exclusions": Kind(answer=_excluding, methods=MORE),
    "gather": Kind(lambda _: {"gather": 16}),
    "gather-worker": Kind(lambda _: {"gather": 12, "worker": True}, _waiting),
    "shadow": Kind(lambda _: {"mode": "shadow"}),
    "guard": Kind(lambda _: {"guard": qs.Guard()}, methods=MORE),
    "strict-guard": Kind(lambda _: {"guard": qs.Guard(collapse=0.01)}),
    "ordinary": Kind(lambda ground: {"guard": _ordinary(ground)}, tasks=("image", "text")),
    "chunk": Kind(lambda _: {"chunk": 5}),
    "float64": Kind(wide=True),
    "before": Kind(lambda _: {"score_from": "before"}),
    "after": Kind(lambda _: {"score_from": "after", "steps": 1}),
    "angle": Kind(lambda _: {"watch_angle": True}, methods=("tcr", "rest")),
    "fast": Kind(lambda _: {"lr": 0.01, "seed": 3, "guard": qs.Guard()}),
    "undo": Kind(answer=_undoing),
    "save": Kind(answer=_saving, methods=MORE),
    "no-adapt": Kind(answer=_not_adapting),
}


@dataclass
class Record:
    """What a stream gave, batch by batch."""

    answers: list[Any] = field(default_factory=list)
    scores: list[dict[str, Tensor]] = field(default_factory=list)
    params: list[dict[str, Tensor]] = field(default_factory=list)


Stream = Callable[[], Record]


def streams() -> dict[str, Stream]:
    """Every stream by name."""
    found: dict[str, Stream] = {}
    for task in TASKS:
        found[f"{task}/items"] = lambda task=task: items_of(ground(task))  # type: ignore[misc]
        for method in qs.METHODS:
            found[f"{task}/{method}"] = _stream(task, qs.METHODS[method])
    for wrapper, names in ((qs.Decoupled, WRAPPED), (qs.Refined, REFINED)):
        for name in names:
            stream = _stream("image", lambda w=wrapper, n=name: w(qs.METHODS[n]()))  # type: ignore[misc]
            found[f"image/{name}+{wrapper.__name__.lower()}"] = stream
    found["image/rest(decouple)"] = _stream("image", lambda: qs.REST(decouple=True))
    for label, kind in KINDS.items():
        for task in kind.tasks:
            for name in kind.methods:
                found[f"{task}/{name}/{label}"] = _stream(task, qs.METHODS[name], kind)
    return found


def _stream(task: str, method: Callable[[], Any], kind: Kind | None = None) -> Stream:
    return lambda: run(ground(task, wide=bool(kind and kind.wide)), method(), kind or Kind())


def run(ground: Ground, method: Any, kind: Kind) -> Record:
    """One stream through a new session."""
    session = qs.Session(
        ground.encoder, ground.gallery, method, **{"guard": None, **kind.options(ground)}
    )
    record = Record()
    for batch, exclude in ground.batches:
        if kind.answer is None:
            answer = session.answer(batch, exclude=exclude)
        else:
            session, answer = kind.answer(session, ground, batch, exclude)
        hits = answer.top(HITS)
        record.answers.append([list(row) for row in hits.ids])
        record.scores.append({"scores": hits.scores.detach().clone()})
        learnt = {name: value.detach().clone() for name, value in session.params.items()}
        record.params.append(learnt)
    return record


def items_of(ground: Ground) -> Record:
    """Fingerprints of the queries, and the candidates' vectors."""
    queries = [digest(batch) for batch, _ in ground.batches]
    return Record(queries, [], [{"gallery": ground.gallery.vectors}])


def digest(item: Any) -> str:
    """A fingerprint of text, an array, or several of them."""
    if isinstance(item, list | tuple):
        content = " ".join(map(digest, item)).encode()
    else:
        content = item.encode() if isinstance(item, str) else item.tobytes()
    return hashlib.sha256(content).hexdigest()


def main() -> None:
    """Run the streams that were asked for; one that fails is stored as what it raised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--streams", nargs="+", default=["*"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # strict guards warn, as they should
    logging.disable(logging.WARNING)
    stored: dict[str, Any] = {}
    for name, stream in streams().items():
        if any(fnmatch(name, pattern) for pattern in options.streams):
            try:
                stored[name] = vars(stream())
            except Exception as error:
                stored[name] = {"error": f"{type(error).__name__}: {error}"}
    torch.save({"home": str(Path(qs.__file__).parent), "streams": stored}, options.output)


if __name__ == "__main__":
    main()
