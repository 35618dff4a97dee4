"""A gallery in memory: exact search in chunks, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder
from queryshift.encoders.prepared import several
from queryshift.errors import BadInput, GalleryMismatch
from queryshift.support.lazy import lazy_property
from queryshift.support.progress import track
from queryshift.support.torch_modes import (
    adaptation_modes,
    without_autocast,
    without_inference_mode,
)

from .addresses import opener_of
from .checks import checked_ids, checked_vectors, unit_vectors
from .clusters import spherical_kmeans
from .exact_search import best_positions, left_for_all
from .gallery_file import read_gallery, write_gallery
from .hits import Hits, Id, at_least_one
from .origin import Origin
from .searchable import Searchable


class Gallery:
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
        origin: Origin | None = None,
    ) -> None:
        if vectors.ndim != 3:
            raise BadInput(
                f"got vectors of shape {tuple(vectors.shape)}, expected (candidates, several, "
                "dimensions): Gallery.from_vectors takes (candidates, dimensions) too."
            )
        self.ids = checked_ids(ids, len(vectors))
        self.vectors = without_inference_mode(vectors.detach())
        self.fingerprint, self.origin = fingerprint, origin
        self._centroids: dict[int, Tensor] = {}

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
            A gallery that knows the encoder's fingerprint.

        Examples:
            >>> import queryshift as qs
            >>> gallery = qs.Gallery.build(qs.load("tangram")["text"], ["a red square", "an arrow"])
            >>> gallery.vectors.shape
            torch.Size([2, 1, 128])
        """
        items = several(items)
        if len(items) == 0:
            raise BadInput("got a gallery with no candidates, expected at least one item.")
        if batch_size < 1:
            raise BadInput(f"batch_size is {batch_size}, expected a whole number of at least 1.")
        ids = checked_ids(range(len(items)) if ids is None else ids, len(items))
        starts = range(0, len(items), batch_size)
        parts = [
            encoder.encode(items[start : start + batch_size])
            for start in track(starts, "embedding the gallery")
        ]
        return cls(ids, checked_vectors(torch.cat(parts), rescale=False), encoder.fingerprint())

    @classmethod
    def from_vectors(cls, ids: Sequence[Id], vectors: Tensor | Sequence[Any]) -> Self:
        """A gallery of vectors that exist already.

        Args:
            ids: An id for each candidate.
            vectors: A tensor, an array or a list of either, (N, D) or (N, V, D), scaled to unit
                length. A `numpy.memmap` of unit vectors stays on disk, float16 too.

        Returns:
            A gallery without a fingerprint: which encoder made the vectors is not known.

        Examples:
            >>> import queryshift as qs
            >>> qs.Gallery.from_vectors(["a", "b"], [[3.0, 4.0], [1.0, 0.0]]).vectors[0]
            tensor([[0.6000, 0.8000]])
        """
        return cls(ids, unit_vectors(vectors))

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
        return cls.load(address) if opener is None else opener(str(address))

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
        if self.fingerprint not in (None, encoder.fingerprint()):
            raise GalleryMismatch(
                f"this {type(encoder).__name__} is not the encoder that built the gallery "
                f"(fingerprint {encoder.fingerprint()}, expected {self.fingerprint}): "
                "use that one, or build the gallery anew."
            )
        more = type(self).build(encoder, items, ids)
        return self._joined(more)

    def add_vectors(self, ids: Sequence[Id], vectors: Tensor | Sequence[Any]) -> Self:
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
            The gallery of the others; this one stays as it is.

        Examples:
            >>> import queryshift as qs
            >>> gallery = qs.Gallery.from_vectors(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
            >>> gallery.remove(["a"]).ids
            ['b']
        """
        gone = set(self.positions(ids))
        kept = [position for position in range(len(self)) if position not in gone]
        if not kept:
            raise BadInput(f"removing all {len(self)} candidates would leave an empty gallery.")
        return type(self)([self.ids[p] for p in kept], self.vectors[kept], *self._made_by)

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
        return type(self)(self.ids, self.vectors.to(device), *self._made_by)

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        several = f", {self.vectors.shape[1]} vectors each" if self.vectors.shape[1] > 1 else ""
        return f"Gallery({len(self):,} candidates, {self.dimension} dimensions{several})"

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.vectors.shape[2]

    @lazy_property
    def version(self) -> str:
        """A short hash of how many candidates there are and of a sample of their ids."""
        sample = self.ids[:: max(1, len(self.ids) // 256)]
        return blake2b(repr((len(self.ids), sample)).encode(), digest_size=16).hexdigest()

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """Which of these ids are candidates.

        Args:
            ids: Ids of any kind.

        Returns:
            Those that are here.

        Examples:
            >>> import queryshift as qs
            >>> qs.Gallery.from_vectors(["a"], [[1.0, 0.0]]).known(["a", "b"])
            {'a'}
        """
        return {one for one in ids if one in self._position}

    def positions(self, ids: Sequence[Id]) -> list[int]:
        """The positions of candidates.

        Args:
            ids: A list of ids; one that is not there is refused.

        Returns:
            A position for each id.

        Examples:
            >>> import queryshift as qs
            >>> gallery = qs.Gallery.from_vectors(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
            >>> gallery.positions(["b"])
            [1]
        """
        if isinstance(ids, str | int):
            raise BadInput(f"got one id, {ids!r}, expected a list of them: [{ids!r}].")
        try:
            return [self._position[one] for one in ids]
        except KeyError as error:
            raise BadInput(
                f"no candidate has the id {error.args[0]!r}; the gallery's {len(self)} ids look "
                f"like {self.ids[0]!r}."
            ) from None

    def centroids(self, count: int) -> Tensor:
        """Centres of the candidates by spherical k-means, computed once per count.

        Args:
            count: How many centres.

        Returns:
            Unit vectors (min(count, N), D).

        Examples:
            >>> import queryshift as qs
            >>> gallery = qs.Gallery.from_vectors(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
            >>> gallery.centroids(1).shape
            torch.Size([1, 2])
        """
        if count not in self._centroids:
            self._centroids[count] = without_inference_mode(spherical_kmeans(self.vectors, count))
        return self._centroids[count]

    @torch.no_grad()
    @without_autocast()
    def search(self, queries: Tensor, count: int, exclude: Tensor | None = None) -> Hits:
        """The exact best candidates of each query, scored in float32 or wider.

        Args:
            queries: Unit vectors (B, D).
            count: Candidates per query. All queries get equally many: no more than the one with the
                most exclusions has left.
            exclude: (query, position) pairs (P, 2) that must not be found.

        Returns:
            Hits on the queries' device.

        Examples:
            >>> import torch
            >>> import queryshift as qs
            >>> gallery = qs.Gallery.from_vectors(["a", "b"], [[1.0, 0.0], [0.0, 1.0]])
            >>> gallery.search(torch.tensor([[0.6, 0.8]]), 2).ids
            [['b', 'a']]
        """
        if queries.ndim != 2 or queries.shape[1] != self.dimension:
            raise GalleryMismatch(
                f"got query vectors of shape {tuple(queries.shape)}, expected (queries, "
                f"{self.dimension}), as the gallery's are."
            )
        home = queries.device
        wide = torch.promote_types(queries.dtype, torch.float32)
        queries = queries.detach().to(self.vectors.device, wide)
        count = min(at_least_one(count), left_for_all(len(self), exclude))
        positions, scores = best_positions(queries, self.vectors, count, exclude)
        return Hits(positions, scores, self).to(home)

    def ids_at(self, positions: Tensor) -> list[list[Id]]:
        """The ids of hits.

        Args:
            positions: (B, K), where the candidates stand.

        Returns:
            One list of ids per query.
        """
        return [[self.ids[position] for position in row] for row in positions.tolist()]

    def vectors_at(self, positions: Tensor) -> Tensor:
        """The vectors of hits.

        Args:
            positions: (B, K), where the candidates stand.

        Returns:
            (B, K, V, D), on the gallery's device.
        """
        return self.vectors[positions.to(self.vectors.device)]

    @property
    def _made_by(self) -> tuple[str | None, Origin | None]:
        return self.fingerprint, self.origin

    def _joined(self, more: Gallery) -> Self:
        if more.vectors.shape[1:] != self.vectors.shape[1:]:
            raise GalleryMismatch(
                f"the new vectors have shape {tuple(more.vectors.shape[1:])} per candidate, the "
                f"gallery has {tuple(self.vectors.shape[1:])}: were they made by another model?"
            )
        vectors = torch.cat((self.vectors, more.vectors.to(self.vectors)))
        return type(self)([*self.ids, *more.ids], vectors, *self._made_by)

    @lazy_property
    def _position(self) -> dict[Id, int]:
        return {one: position for position, one in enumerate(self.ids)}
