"""A matcher scores pairs of a query and a candidate on top of a gallery's hits (single stream)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from queryshift.errors import BadInput
from queryshift.support.progress import track

from .adapted_parameters import Params
from .frozen_module import FrozenModule
from .prepared import Prepared, count, each, joined, move, several

PREFIX = "matcher."  # of the names of a matcher's own parameters


class Matcher(FrozenModule):
    """Scores pairs. Like an encoder it never changes; sessions override its parameters.

    Write `keep` (what it needs of candidates, once) and `forward` (logits of pairs).
    """

    rerank: int = 128
    """Number of hits of each query to rerank."""

    pairs_at_once: int = 2048
    """Number of pairs to score at once; limits memory."""

    shared_names: Mapping[str, str] = {}
    """Adapted parameters that the query encoder shares with the matcher: its name to ours."""

    @abstractmethod
    def keep(self, items: Sequence[Any]) -> Prepared:
        """Tensors of candidates, first axis the candidates; kept for the gallery's lifetime."""

    @abstractmethod
    def forward(self, readings: Any, candidates: Any) -> Tensor:
        """Logits (B * k, 2), the second "they match", of B queries with k candidates each.

        `readings` is what the encoder's `finish_for_matcher` gave, `candidates` what `keep` did.
        """

    def over(
        self, items: Sequence[Any], batch_size: int = 64, ids: Sequence[str | int] | None = None
    ) -> Matching:
        """This matcher over a gallery's candidates.

        Args:
            items: the candidates, in the gallery's order, or in any order with their ids.
            batch_size: candidates that are kept at once.
            ids: an id for each; a gallery in a search engine has no order, and needs them.

        Returns:
            What a session takes as its `matcher`.
        """
        items = several(items)
        if ids is not None and len(ids) != len(items):
            raise BadInput(f"got {len(ids)} ids for {len(items)} candidates, expected one each.")
        if len(items) == 0:
            raise BadInput("got no candidates to match with, expected those of the gallery.")
        starts = range(0, len(items), batch_size)
        with torch.no_grad():
            parts = [
                self.keep(items[i : i + batch_size]) for i in track(starts, "keeping candidates")
            ]
        places = None if ids is None else {one: place for place, one in enumerate(ids)}
        return Matching(self, joined(parts), places)

    def own_params(self) -> Params:
        """The source values of the parameters that only the matcher has, by prefixed name."""
        shared = set(self.shared_names.values())
        return {PREFIX + n: value for n, value in self.norm_params().items() if n not in shared}


@dataclass(frozen=True, eq=False)
class Matching:
    """A matcher over the candidates of one gallery."""

    matcher: Matcher
    candidates: Prepared
    places: Mapping[str | int, int] | None = None  # of ids; None: a gallery's positions are places

    def __len__(self) -> int:
        return count(self.candidates)

    def places_of(self, ids: Sequence[Sequence[str | int]]) -> Tensor:
        """The places (B, k) of candidates by their ids, k for each query."""
        known = self.places or {}
        for row in ids:
            for one in row:
                if one not in known:
                    raise BadInput(
                        f"the gallery has the candidate {one!r}, which the matcher is not over: "
                        "make it over all of the gallery's items."
                    )
        return torch.tensor([[known[one] for one in row] for row in ids], device="cpu")

    def logits(self, params: Params, readings: Prepared, positions: Tensor) -> Tensor:
        """Logits (B, k, 2) of each query with the candidates at places `positions` (B, k)."""
        known = {ours: params[n] for n, ours in self.matcher.shared_names.items() if n in params}
        known |= {n.removeprefix(PREFIX): v for n, v in params.items() if n.startswith(PREFIX)}
        chosen = each(self.candidates, lambda kept: kept[positions.flatten().to(kept.device)])
        chosen = move(chosen, self.matcher.device)
        self.matcher.notice_replaced_tensors()
        logits: Tensor = self.matcher.run_with_params(known, "forward", readings, chosen)
        return logits.view(*positions.shape, 2).to(torch.promote_types(logits.dtype, torch.float32))
