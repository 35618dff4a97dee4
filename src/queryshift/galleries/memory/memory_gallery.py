"""The gallery in memory: build it, save and load it, add and remove candidates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from queryshift.encoders.encoder import Encoder, check_encoder
from queryshift.encoders.prepared import several
from queryshift.errors import BadFile, BadInput, GalleryMismatch
from queryshift.support.paths import is_there, user_path
from queryshift.support.progress import track
from queryshift.support.torch_modes import adaptation_modes, without_inference_mode

from ..addresses import ENGINES, opener_of
from ..candidate_checks import checked_ids, checked_vectors, vectors_and_lengths
from ..hits import Id
from ..model_origin import ModelOrigin
from ..searchable import Searchable
from .exact_gallery import CandidateRows, ExactGallery, RowSegment
from .gallery_file import read_gallery, write_gallery


class Gallery(ExactGallery):
    """Candidates in memory as unit vectors, searched exactly. A value: it never changes.

    Usually made by `build` (items and an encoder), `from_vectors` or `load`.

    Args:
        ids: An id for each candidate, text or whole numbers, no two alike.
        vectors: Unit vectors (N, V, D): N candidates of V vectors each. The similarity of a
            candidate of several vectors is that of its best one.
        fingerprint: The fingerprint of the encoder that made them; `add` and saved sessions refuse
            another.
        origin: The model it was built by, where that is known: a session of another warns.

    Examples:
        >>> import queryshift as qs
        >>> gallery = qs.Gallery.from_vectors(["north", "east"], [[0.0, 2.0], [1.0, 0.0]])
        >>> len(gallery), gallery.dimension, gallery.ids
        (2, 2, ['north', 'east'])
    """

    def __init__(
        self,
        ids: Sequence[Id],
        vectors: Tensor,
        fingerprint: str | None = None,
        origin: ModelOrigin | None = None,
    ) -> None:
        if vectors.ndim != 3:
            raise BadInput(
                f"got vectors of shape {tuple(vectors.shape)}, expected (candidates, several, "
                "dimensions): Gallery.from_vectors takes (candidates, dimensions) too."
            )
        super().__init__(CandidateRows.of(_segment(ids, vectors)))
        self.fingerprint, self.origin = fingerprint, origin

    @classmethod
    @adaptation_modes()
    def build(
        cls,
        encoder: Encoder,
        items: Sequence[Any],
        ids: Sequence[Id] | None = None,
        batch_size: int = 64,
    ) -> Self:
        """Encode candidates with the source parameters.

        Args:
            encoder: The encoder of the candidates' modality.
            items: The candidates, as the encoder takes them.
            ids: An id for each; their positions where none are given.
            batch_size: Candidates that are encoded at once.

        Returns:
            A gallery that knows the encoder's fingerprint, and the model that it was loaded with.

        Examples:
            >>> import queryshift as qs
            >>> gallery = qs.Gallery.build(qs.load("tangram")["text"], ["a red square", "an arrow"])
            >>> gallery.vectors.shape
            torch.Size([2, 1, 128])
        """
        check_encoder(encoder)
        items = several(items)
        if len(items) == 0:
            raise BadInput("got a gallery with no candidates, expected at least one item.")
        if not isinstance(batch_size, int) or batch_size < 1:
            raise BadInput(f"batch_size is {batch_size!r}, expected a whole number of at least 1.")
        ids = checked_ids(range(len(items)) if ids is None else ids, len(items))
        starts = range(0, len(items), batch_size)
        parts = [
            encoder.encode(items[start : start + batch_size])
            for start in track(starts, "embedding the gallery")
        ]
        vectors, made_by = checked_vectors(torch.cat(parts), rescale=False), encoder.fingerprint()
        loaded = encoder.origin
        known = loaded is not None and loaded.fingerprint == made_by  # not changed since
        rows = CandidateRows.of(RowSegment(ids, without_inference_mode(vectors)))
        return cls._over(rows, made_by, loaded if known else None)

    @classmethod
    def from_vectors(
        cls, ids: Sequence[Id] | None, vectors: Tensor | NDArray[Any] | Sequence[Any]
    ) -> Self:
        """A gallery of vectors that exist already.

        Args:
            ids: An id for each candidate; None numbers them: 0, 1, 2.
            vectors: A tensor, an array or a list of either, (N, D) or (N, V, D), scaled to unit
                length. A `numpy.memmap` stays on disk: only the lengths of its vectors are kept in
                memory, where not all of them are 1, and scores are divided by them.

        Returns:
            A gallery without a fingerprint: which encoder made the vectors is not known.

        Examples:
            >>> import queryshift as qs
            >>> qs.Gallery.from_vectors(["a", "b"], [[3.0, 4.0], [1.0, 0.0]]).vectors[0]
            tensor([[0.6000, 0.8000]])
        """
        checked, lengths = vectors_and_lengths(vectors)
        named = range(len(checked)) if ids is None else ids
        return cls._over(CandidateRows.of(_segment(named, checked, lengths)))

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True, mapped: bool = True) -> Self:
        """Read what `save` wrote.

        Args:
            path: The file.
            verify: Compare the checksum, and look whether all vectors are finite and of unit
                length. This reads the whole file once; False trusts it.
            mapped: Leave the vectors on disk until they are needed. A mapped file must not be cut
                or written into by others, which ends the process; False reads it into memory.

        Returns:
            The gallery that was saved.

        Raises:
            BadFile: The file is not there, damaged, or holds no whole gallery.

        Examples:
            >>> import queryshift as qs
            >>> qs.Gallery.from_vectors(["a"], [[3.0, 4.0]]).save("captions.gallery")
            >>> qs.Gallery.load("captions.gallery").ids
            ['a']
        """
        return cls(*read_gallery(path, verify=verify, mapped=mapped))

    @classmethod
    def open(cls, address: str | Path) -> Searchable:
        """The gallery at an address: a file that `save` wrote, or a collection of an engine.

        Args:
            address: A path (.parquet too), "milvus://host:19530/collection", "postgresql://host/database?...",
                "qdrant://host:6333/collection" or "faiss:PATH"; each engine is an extra.

        Returns:
            A gallery that a session can search.

        Raises:
            UnknownName: No engine has such addresses.

        Examples:
            >>> import queryshift as qs
            >>> qs.Gallery.from_vectors(["a"], [[3.0, 4.0]]).save("captions.safetensors")
            >>> len(qs.Gallery.open("captions.safetensors"))
            1
        """
        opener = opener_of(address)
        if opener is not None:
            return opener(str(address))
        if not is_there(user_path(address)):
            raise BadFile(
                f'there is no file "{address}": expected a gallery file, or an address that begins '
                f"with {', '.join(ENGINES)} and a colon."
            )
        return cls.load(address)

    def save(self, path: str | Path) -> None:
        """Write ids, vectors and a checksum as one safetensors file, whole or not at all.

        Args:
            path: The file to write; it replaces one of this name.
        """
        write_gallery(path, self.ids, self.vectors, *self._made_by)

    def add(self, encoder: Encoder, items: Sequence[Any], ids: Sequence[Id]) -> Self:
        """A new gallery with more candidates.

        Args:
            encoder: The encoder that made the others.
            items: The new candidates.
            ids: An id for each, none of them in the gallery.

        Returns:
            The gallery with the new candidates at its end; this one stays as it is.

        Examples:
            >>> import queryshift as qs
            >>> text = qs.load("tangram")["text"]
            >>> gallery = qs.Gallery.build(text, ["a red square"], ids=["square"])
            >>> gallery.add(text, ["an arrow"], ids=["arrow"]).ids
            ['square', 'arrow']
        """
        check_encoder(encoder)
        if self.fingerprint not in (None, encoder.fingerprint()):
            raise GalleryMismatch(
                f"this {type(encoder).__name__} is not the encoder that built the gallery "
                f"(fingerprint {encoder.fingerprint()}, expected {self.fingerprint}): "
                "use that one, or build the gallery again."
            )
        return self._joined(type(self).build(encoder, items, ids))

    def add_vectors(
        self, ids: Sequence[Id], vectors: Tensor | NDArray[Any] | Sequence[Any]
    ) -> Self:
        """A new gallery with more candidates whose vectors exist already.

        Args:
            ids: An id for each new candidate, none of them in the gallery.
            vectors: Their vectors, as `from_vectors` takes them.

        Returns:
            The gallery with the new candidates at its end; this one stays as it is.

        Examples:
            >>> import queryshift as qs
            >>> gallery = qs.Gallery.from_vectors(["a"], [[1.0, 0.0]])
            >>> gallery.add_vectors(["b"], [[0.0, 1.0]]).ids
            ['a', 'b']
        """
        return self._joined(type(self).from_vectors(ids, vectors))

    def remove(self, ids: Sequence[Id]) -> Self:
        """A new gallery without some candidates.

        Args:
            ids: The ids to leave out; one that is not there is refused.

        Returns:
            The gallery of the others, in their order; this one stays as it is.

        Examples:
            >>> import queryshift as qs
            >>> gallery = qs.Gallery.from_vectors(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
            >>> gallery.remove(["a"]).ids
            ['b']
        """
        gone = set(self.positions(ids))
        if len(gone) == len(self):
            raise BadInput(f"removing all {len(self)} candidates would leave an empty gallery.")
        return self._over(self._rows.without(sorted(gone)), *self._made_by)

    def to(self, device: torch.device | str) -> Self:
        """The same candidates on another device.

        Args:
            device: A torch device, or its name.

        Returns:
            A gallery whose vectors lie there.

        Examples:
            >>> import queryshift as qs
            >>> gallery = qs.Gallery.from_vectors(["a"], [[1.0, 0.0]])
            >>> gallery.to("cpu").vectors.device
            device(type='cpu')
        """
        try:
            torch.empty(0, device=device)
        except (RuntimeError, TypeError) as error:
            raise BadInput(
                f"got {device!r} as device, which is not available here ({error})."
            ) from error
        moved = CandidateRows.of(RowSegment(self.ids, self.vectors.to(device)))
        return self._over(moved, *self._made_by)

    @classmethod
    def _over(
        cls, rows: CandidateRows, fingerprint: str | None = None, origin: ModelOrigin | None = None
    ) -> Self:
        """A gallery of candidates that are checked already."""
        gallery = cls.__new__(cls)
        ExactGallery.__init__(gallery, rows)
        gallery.fingerprint, gallery.origin = fingerprint, origin
        return gallery

    @property
    def _made_by(self) -> tuple[str | None, ModelOrigin | None]:
        return self.fingerprint, self.origin

    def _joined(self, more: Gallery) -> Self:
        if more._stored.shape[1:] != self._stored.shape[1:]:
            raise GalleryMismatch(
                f"the new vectors have shape {tuple(more._stored.shape[1:])} per candidate, the "
                f"gallery has {tuple(self._stored.shape[1:])}: were they made by another model?"
            )
        for one in self.known(more.ids):
            raise BadInput(f"the id {one!r} stands more than once: every candidate needs its own.")
        added = RowSegment(more.ids, more.vectors.to(self._stored))
        return self._over(self._rows.added(added), *self._made_by)


def _segment(ids: Sequence[Id], vectors: Tensor, lengths: Tensor | None = None) -> RowSegment:
    """Candidates whose vectors are checked already, their ids not yet."""
    plain = without_inference_mode(vectors.detach())
    return RowSegment(checked_ids(ids, len(vectors)), plain, lengths)
