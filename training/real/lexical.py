"""What a search engineer would try first: spelling correction, BM25, and fusing two rankings.

Needs the extra `search`. The dictionary and the index come from the candidates themselves.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from queryshift.support.optional import need

FURTHEST = 2  # edits between a typed word and the one that was meant
WINDOW, SMOOTHING = 1_000, 60  # of reciprocal rank fusion: best hits of either, and the usual k
# bm25s imports JAX where it is installed, and JAX would take 75 % of a GPU's memory.
JAX = {"JAX_PLATFORMS": "cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
_WORD = re.compile(r"[^\W\d_]+")


class Speller:
    """Corrects words of queries to the nearest word of the documents (SymSpell)."""

    def __init__(self, documents: Sequence[str]) -> None:
        self._symspell = need("symspellpy", "search", "correcting spelling")
        self._known = self._symspell.SymSpell(max_dictionary_edit_distance=FURTHEST)
        words = Counter(word for text in documents for word in _WORD.findall(text.lower()))
        for word, count in words.items():
            self._known.create_dictionary_entry(word, count)

    def corrected(self, query: str) -> str:
        """The query in lower case; a word that is near no word of the documents stays."""
        return _WORD.sub(lambda word: self._nearest(word[0]), query.lower())

    def _nearest(self, word: str) -> str:
        found = self._known.lookup(word, self._symspell.Verbosity.TOP, FURTHEST)
        return str(found[0].term) if found else word


class BM25:
    """Lexical scores of documents, by the library bm25s in its usual settings."""

    def __init__(self, documents: Sequence[str]) -> None:
        for name, value in JAX.items():
            os.environ.setdefault(name, value)
        self._library = need("bm25s", "search", "BM25")
        self._index = self._library.BM25()
        self._index.index(self._tokens(documents), show_progress=False)
        self._count = len(documents)

    def scores(self, queries: Sequence[str]) -> Tensor:
        """Scores (B, N) of all documents, 0 where they share no word with the query."""
        found = np.zeros((len(queries), self._count), np.float32)
        for row, words in enumerate(self._tokens(queries, return_ids=False)):
            known = [word for word in words if word in self._index.vocab_dict]
            if known:
                found[row] = self._index.get_scores(known)
        return torch.from_numpy(found)

    def _tokens(self, texts: Sequence[str], **how: Any) -> Any:
        return self._library.tokenize(list(texts), stopwords="en", show_progress=False, **how)


def fused(similarities: Tensor, lexical: Tensor) -> Tensor:
    """Scores (B, N) of reciprocal rank fusion; a lexical score of 0 is no hit."""
    return _reciprocal(similarities) + _reciprocal(lexical) * (lexical > 0)


def _reciprocal(scores: Tensor) -> Tensor:
    """1 / (k + rank) for the best of each row, 0 for the others."""
    order = scores.argsort(dim=1, descending=True, stable=True)[:, :WINDOW]
    share = 1 / (SMOOTHING + torch.arange(1, order.shape[1] + 1, dtype=torch.float64))
    held = torch.zeros(scores.shape, dtype=torch.float64)
    return held.scatter(1, order.cpu(), share.expand(len(scores), -1)).to(scores.device)
