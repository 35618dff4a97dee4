"""The base class of galleries in a search engine: an engine adds four methods."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, ParamSpec, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from queryshift.errors import BadInput, EngineLost, NeedsVectors
from queryshift.support.threads import RenewedLock
from queryshift.support.torch_modes import without_autocast

from .candidate_checks import (
    LOOKED_AT,
    Metric,
    as_array,
    check_searched,
    checked_engine_vectors,
    known_metric,
)
from .clusters import SAMPLE, spherical_kmeans
from .hits import Hits, Id, at_least_one
from .model_origin import ModelOrigin
from .searchable import SearchEffort
from .seen_candidates import Found, SeenCandidates, joined_answers

FIRST_WAIT = 0.1  # seconds before the first retry; each further wait is twice as long
HITS_AT_ONCE = 2**14  # hits with their vectors that a call asks for, at most
SHARE = 0.25  # of the timeout: a call that takes longer asks for fewer hits the next time

Asked = ParamSpec("Asked")
Told = TypeVar("Told")


@dataclass(frozen=True)
class _Sample:
    """An unbiased sample of the candidates, and centroids computed from it."""

    vectors: Tensor  # (N, V, D)
    version: str
    taken: float
    centroids: dict[int, Tensor]


def with_retries(verb: Callable[[], Told], retries: int, first_wait: float) -> Told:
    """Call a verb, and again if the connection was lost; each wait is twice as long."""
    for attempt in range(retries):
        try:
            return verb()
        except EngineLost:
            time.sleep(first_wait * 2**attempt)
    return verb()


def check_version(engine: str, version: str, oldest: tuple[int, int], advice: str) -> None:
    """Refuse an engine that is too old; the advice says what to do."""
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < oldest:
        raise BadInput(
            f'this is {engine} "{version}", expected {oldest[0]}.{oldest[1]} or later: {advice}.'
        )


class EngineGallery:
    """A gallery in a search engine. A subclass writes four methods; the rest is here.

    The methods use only NumPy and ids: `find` (the best candidates with their vectors), `sample`
    (an unbiased sample of vectors), `count`, and `known` (which ids exist). A method that loses
    its connection, or exceeds `timeout`, raises `EngineLost`, and reconnects in its next call. It
    is called again after 0.1 s, 0.2 s, 0.4 s and so on. If all fail, the session is unchanged.

    Args:
        dimension: Length of a vector.
        retries: How often a method that lost its connection is called again.
        timeout: Seconds that one call of a method may take; methods pass it to their client.
        refresh_after: Seconds after which centroids are computed from a new sample.

    Examples:
        >>> import numpy as np
        >>> import torch
        >>> from queryshift.galleries import EngineGallery, Found
        >>> class Compass(EngineGallery):
        ...     names, stored = np.array(["north", "east"]), np.eye(2, dtype=np.float32)
        ...     def find(self, queries, count):
        ...         best = np.argsort(-queries @ self.stored.T, axis=1)[:, :count]
        ...         return [Found(self.names[row].tolist(), self.stored[row]) for row in best]
        ...     def sample(self, count, seed):
        ...         return self.stored[:count]
        ...     def count(self):
        ...         return len(self.stored)
        ...     def known(self, ids):
        ...         return set(ids) & {"north", "east"}
        >>> Compass(2).search(torch.tensor([[0.6, 0.8]]), 1).ids
        [['east']]
    """

    metric: Metric = "cosine"
    """Ranking: "cosine", or "inner product" and "euclidean", which need unit vectors."""
    exact: bool = False
    """Whether a search misses nothing; if not, sessions ask you to measure its recall."""
    search_effort: SearchEffort | None = None
    """How much of the index a search visits (ef, nprobe); you can set another value."""
    recall_told: bool = False  # whether the user was warned about recall
    origin: ModelOrigin | None = None
    """The model that made the vectors, if the engine stores it."""
    _connection: Any = None
    _name: str = ""  # the arguments that `repr` shows

    def __init__(
        self,
        dimension: int,
        *,
        retries: int = 3,
        timeout: float = 10.0,
        refresh_after: float = 600.0,
    ) -> None:
        if dimension < 1 or retries < 0 or not timeout > 0 or not refresh_after >= 0:
            raise BadInput(
                f"got dimension={dimension}, retries={retries}, timeout={timeout} and "
                f"refresh_after={refresh_after}, expected at least 1, 0, more than 0, and 0."
            )
        self.dimension, self.retries = dimension, retries
        self.timeout, self.refresh_after = timeout, refresh_after
        self._handles: dict[Id, int] = {}
        self._ids: list[Id] = []
        self._lock = RenewedLock()
        self._sample: _Sample | None = None
        self._counted: tuple[int, float] | None = None  # and when
        self._at_once = HITS_AT_ONCE

    def find(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """Find the best candidates of all queries, in one call of the engine.

        Args:
            queries: Unit vectors (B, D).
            count: Candidates per query.

        Returns:
            The candidates of each query, best first; fewer than `count` are allowed.
        """
        raise NotImplementedError(f"{type(self).__name__} has no find(queries, count).")

    def sample(self, count: int, seed: int) -> NDArray[np.float32]:
        """Draw an unbiased sample of the candidates' vectors: each is equally likely.

        Args:
            count: How many. If there are no more than that, all of them, in the order they were
                added if the engine knows it.
            seed: The same seed gives the same sample, if the engine can do that.

        Returns:
            Vectors (n, D) or (n, V, D).
        """
        raise NotImplementedError(f"{type(self).__name__} has no sample(count, seed).")

    def count(self) -> int:
        """Count the candidates.

        Returns:
            Their number.
        """
        raise NotImplementedError(f"{type(self).__name__} has no count().")

    def known(self, ids: Sequence[Id]) -> set[Id]:
        """Find out which ids are candidates.

        Args:
            ids: Ids of any kind.

        Returns:
            The ids that the engine has now.
        """
        raise NotImplementedError(f"{type(self).__name__} has no known(ids).")

    def find_exact(self, queries: NDArray[np.float32], count: int) -> Sequence[Found]:
        """Find the best candidates without the index, as ground truth for recall.

        Args:
            queries: Unit vectors (B, D).
            count: Candidates per query.

        Returns:
            The exact best of each query, best first.
        """
        if self.exact:
            return self.find(queries, count)
        raise BadInput(
            f"{type(self).__name__} cannot search without its index, so recall cannot be "
            "measured: write find_exact(queries, count)."
        )

    @property
    def place(self) -> str:
        """The address of this collection, without credentials; "" if it has none."""
        return ""

    @property
    def version(self) -> str:
        """Text that changes when the candidates change; by default their number."""
        return str(self._count_now())

    def close(self) -> None:
        """Close the connection, if the engine has one; the next search opens it again."""
        if self._connection is not None:
            self._connection.close()

    def __len__(self) -> int:
        """The number of candidates, counted at most `refresh_after` seconds ago."""
        if self._counted is None or self._aged(self._counted[1]):
            return self._count_now()
        return self._counted[0]

    @property
    def vectors(self) -> NoReturn:
        """Not available: a search engine does not return all of its vectors."""
        raise NeedsVectors(
            f"a {type(self).__name__} gallery cannot give its vectors, and this method is over the "
            "whole gallery: wrap it as Refined(method), or use REST or TCR, which need only hits "
            "(TSA needs a gallery in memory)."
        )

    @torch.no_grad()
    @without_autocast()
    def search(self, queries: Tensor, count: int, exclude: Tensor | None = None) -> Hits:
        """Find the best candidates of each query, and score them again in float.

        Args:
            queries: Unit vectors (B, D).
            count: Candidates per query; fewer if the engine finds fewer.
            exclude: (query, handle) pairs (P, 2) that must not be found.

        Returns:
            Hits on the queries' device, with handles as positions.
        """
        return self.fetch(queries, count, exclude).search(queries, at_least_one(count), exclude)

    @torch.no_grad()
    def fetch(self, queries: Tensor, count: int, exclude: Tensor | None = None) -> SeenCandidates:
        """Fetch all candidates that the engine finds for these queries, with their vectors.

        Args:
            queries: Unit vectors (B, D).
            count: Candidates per query that are left after exclusion.
            exclude: (query, handle) pairs (P, 2); as many more candidates are fetched.

        Returns:
            The candidates found for any of the queries, on their device.
        """
        check_searched(queries, exclude, self.dimension)
        excluded = 0 if exclude is None or not len(exclude) else int(exclude[:, 0].bincount().max())
        answers = self._find_in_parts(as_array(queries), at_least_one(count) + excluded)
        ids, found = joined_answers(answers)
        vectors = checked_engine_vectors(found, self.dimension, self.metric)
        return SeenCandidates.of(self._handles_of(ids), ids, vectors.to(queries.device))

    def centroids(self, count: int) -> Tensor:
        """Compute centres of the candidates by spherical k-means over an unbiased sample.

        The sample is reused until it is `refresh_after` seconds old, or `refresh` finds another
        `version`.

        Args:
            count: How many centres.

        Returns:
            Unit vectors (min(count, N), D).
        """
        sample = self._sample
        if sample is None or self._aged(sample.taken):
            sample = self._sample = self._sampled()
        if count not in sample.centroids:
            sample.centroids[count] = spherical_kmeans(sample.vectors, count)
        return sample.centroids[count]

    def refresh(self) -> None:
        """Read the version again; if it has changed, draw a new sample for centroids."""
        self._counted = None
        if self._sample is not None and self._ask(lambda: self.version) != self._sample.version:
            self._sample = None

    def positions(self, ids: Sequence[Id]) -> list[int]:
        """Return the handles of candidates; the engine is asked about ids that are new.

        Args:
            ids: A list of ids; an unknown one is an error.

        Returns:
            A handle for each id.
        """
        if isinstance(ids, str | int):
            raise BadInput(f"got one id, {ids!r}, expected a list of them: [{ids!r}].")
        new = [one for one in dict.fromkeys(ids) if one not in self._handles]
        there = self._ask(self.known, new) if new else set()
        for one in new:
            if one not in there:
                raise BadInput(f"no candidate has the id {one!r}: was it removed, or misspelt?")
        return self._handles_of(ids)

    def ids_at(self, positions: Tensor) -> list[list[Id]]:
        """Return the ids of candidates that were found before.

        Args:
            positions: Handles (B, K).

        Returns:
            One list of ids per query.
        """
        return [[self._ids[handle] for handle in row] for row in positions.tolist()]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name or f'{self.dimension} dimensions'})"

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        """Close the connection if the block fails: nobody else can."""
        try:
            yield
        except Exception:
            self.close()
            raise

    def _array(self, vectors: Sequence[Any]) -> NDArray[np.float32]:
        """Stored vectors as (n, D), also where there are none."""
        return np.array(vectors, dtype=np.float32).reshape(len(vectors), self.dimension)

    def _check_stored(
        self, collection: str, metric: str, vectors: NDArray[np.float32] | None = None
    ) -> None:
        """Set the metric of the collection, and check the length of some of its vectors."""
        self.metric = known_metric(collection, metric)
        some = self.sample(LOOKED_AT, 0) if vectors is None else vectors
        checked_engine_vectors(some, self.dimension, self.metric)

    def _ask(self, verb: Callable[Asked, Told], *args: Asked.args, **options: Asked.kwargs) -> Told:
        """Call a method, and again after a pause if the connection was lost."""
        try:
            return with_retries(lambda: verb(*args, **options), self.retries, FIRST_WAIT)
        except EngineLost as error:
            tries = self.retries + 1
            raise EngineLost(
                f"{str(error).rstrip('.')} ({tries} {'try' if tries == 1 else 'tries'}): nothing "
                "has changed here, ask again when the engine is back."
            ) from None  # a client's error may show the address and the user

    def _find_in_parts(self, queries: NDArray[np.float32], count: int) -> list[Found]:
        """Find candidates in several calls, each well within the timeout."""
        answers: list[Found] = []

        def some() -> Sequence[Found]:
            asked = queries[len(answers) :][: max(1, self._at_once // count)]
            try:
                started = time.monotonic()
                found = self.find(asked, count)
            except EngineLost:
                self._at_once = max(1, self._at_once // 2)  # it may have been too much
                raise
            if len(found) != len(asked):
                raise BadInput(f"the engine answered {len(found)} of {len(asked)} queries.")
            share = (time.monotonic() - started) / (self.timeout * SHARE)
            if share > 1:
                self._at_once = max(1, int(len(asked) * count / share))
            elif share < 0.5:
                self._at_once = min(HITS_AT_ONCE, 2 * self._at_once)
            return found

        while len(answers) < len(queries):
            answers += self._ask(some)
        return answers

    def _aged(self, since: float) -> bool:
        return time.monotonic() - since > self.refresh_after

    def _count_now(self) -> int:
        number = self._ask(self.count)
        self._counted = (number, time.monotonic())
        return number

    def _sampled(self) -> _Sample:
        version = self._ask(lambda: self.version)
        vectors = self._ask(self.sample, SAMPLE, 0)
        if len(vectors) == 0:
            raise BadInput("the engine's gallery is empty, expected at least one candidate.")
        checked = checked_engine_vectors(vectors, self.dimension, self.metric)
        return _Sample(checked, version, time.monotonic(), {})

    def _handles_of(self, ids: Sequence[Id]) -> list[int]:
        """Return a handle for each id; new ids get new ones."""
        with self._lock:
            for one in ids:
                if one not in self._handles:
                    self._handles[one] = len(self._ids)
                    self._ids.append(one)
            return [self._handles[one] for one in ids]
