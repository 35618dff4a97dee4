"""The embedded world as a collection of the service: images ask, captions are found."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadFile
from queryshift.galleries import Gallery
from queryshift.galleries.hits import Id
from queryshift.serving.answering.thumbnails import png

from .scene_captions import captions
from .scenes import Scene, scenes

REFERENCE = 256  # images as they are when all is well


class TangramWorld:
    """Scenes of the test world: a caption of each is a candidate, its image a query.

    Args:
        model: the bundled model, by modality.
        candidates: how many scenes.
    """

    def __init__(self, model: Mapping[str, Encoder], candidates: int) -> None:
        self._model, self._count = model, candidates

    @cached_property
    def _scenes(self) -> list[Scene]:
        return scenes("test", self._count)

    @cached_property
    def _captions(self) -> list[str]:
        return [captions(scene)[0] for scene in self._scenes]

    def gallery(self, folder: Path) -> Gallery:
        """The captions' vectors; kept in a folder, since encoding them takes seconds."""
        path = folder / f"tangram-{self._count}.gallery"
        encoder = self._model["text"]
        try:
            kept = Gallery.load(path, mapped=False)
            if kept.fingerprint == encoder.fingerprint():
                return kept
        except BadFile:
            pass
        made = Gallery.build(encoder, self._captions, batch_size=256)
        made.save(path)
        return made

    def reference(self) -> list[Any]:
        """Clean images of the last scenes; the first are samples."""
        return [Image.fromarray(scene.image()) for scene in self._scenes[-REFERENCE:]]

    def samples(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Images to try, each with the caption that is right for it."""
        return [
            {
                "id": position,
                "query": {"image": png(Image.fromarray(scene.image()))},
                "right": [position],
            }
            for position, scene in enumerate(self._scenes[start:stop], start)
        ]

    def candidate(self, candidate: Id) -> dict[str, Any]:
        """A caption by its id."""
        return {"id": candidate, "text": self._captions[int(candidate)]}
