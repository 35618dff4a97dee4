"""Exact search over vectors in memory, in chunks, in float32 or wider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from queryshift.errors import BadInput, NeedsVectors

from ..exclusions import mask_excluded

if TYPE_CHECKING:
    from ..searchable import Searchable
    from .exact_gallery import CandidateRows

WHOLE = 2**18  # largest gallery in memory whose candidates are all scored
CHUNK_SCORES = 2**22  # scores held at once by a thread: 16 MB in float32
MOST_CHUNKS = 4  # of a thread, at most, however many threads there are
PIECE_SCORES = 2**16  # scores of one product of converted candidates by a thread
LEAST_PIECE = 1024  # candidates: products of fewer are slow
PIECE_VALUES = 2**22  # numbers of candidates converted for a product by a thread: 16 MB
GPU_THREADS = 128  # what a GPU counts as
PADDING = 16  # between rows of scores: rows a power of two apart would share places in a cache
GROUP = 16  # numbers of which only the largest is looked at first
LEAST = 2**14  # columns: shorter rows gain little
FEW = 32  # that topk finds without sorting


def best_rows(
    queries: Tensor, candidates: CandidateRows, count: int, exclude: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Rows and scores (B, count) of the best candidates, best first.

    `queries` (B, D) are wide, and on the candidates' device; `exclude` holds (query, position)
    pairs; at least `count` candidates must be left for each query.
    """
    if exclude is not None:
        exclude = torch.stack((exclude[:, 0], candidates.rows_at(exclude[:, 1])), dim=1)
    rows = torch.empty(len(queries), 0, dtype=torch.long, device=queries.device)
    scores = queries.new_empty(len(queries), 0)
    for start, chunk in _chunks(queries, candidates):
        chunk = _without_dead(chunk, candidates.dead, start)
        chunk = mask_excluded(chunk, exclude, columns=start)
        if scores.shape[1] == count and few_above(chunk, count):
            best, columns = grouped_above(chunk, scores[:, -1:])
        else:
            best, columns = grouped_topk(chunk, min(count, chunk.shape[1]))
        if scores.shape[1] == 0:
            scores, rows = best, columns + start
            continue
        joined = torch.cat((scores, best), dim=1)
        scores, order = joined.topk(min(count, joined.shape[1]), dim=1)
        rows = torch.cat((rows, columns + start), dim=1).gather(1, order)
    return rows, scores


def all_scores(queries: Tensor, vectors: Tensor) -> Tensor:
    """Similarity (B, N) of queries (B, D) to candidates of unit vectors (N, V, D), in pieces.

    `queries` are wide, and on the candidates' device.
    """
    _, piece = _widths(queries, vectors)
    scores = queries.new_empty(len(queries), len(vectors) + PADDING)[:, : len(vectors)]
    for start in range(0, len(vectors), piece):
        some = slice(start, start + piece)
        _score(queries, vectors[some], None, scores[:, some])
    return scores


def in_memory(gallery: Searchable) -> bool:
    """Whether every candidate can be scored for each batch."""
    try:
        return len(gallery) <= WHOLE and gallery.vectors is not None
    except NeedsVectors:
        return False


def similarity(queries: Tensor, candidates: Tensor) -> Tensor:
    """Best similarity (B, N) of queries (B, D) to candidates of several vectors (N, V, D)."""
    scores = queries @ candidates.flatten(0, 1).T
    if candidates.shape[1] == 1:
        return scores
    return scores.view(len(queries), *candidates.shape[:2]).amax(dim=2)


def best_vectors(queries: Tensor, candidates: Tensor) -> Tensor:
    """Of each query's own candidate (B, V, D), the vector (B, D) nearest to the query."""
    if candidates.shape[1] == 1:
        return candidates[:, 0]
    with torch.no_grad():
        best = (candidates @ queries[:, :, None]).squeeze(2).argmax(dim=1)
    return candidates[torch.arange(len(candidates), device=candidates.device), best]


def left_for_all(candidates: int, exclude: Tensor | None) -> int:
    """How many of the candidates every query has left after exclusion."""
    most = 0 if exclude is None or len(exclude) == 0 else int(exclude[:, 0].bincount().max())
    if most >= candidates:
        raise BadInput(f"all {candidates} candidates are excluded for a query: leave some.")
    return candidates - most


def _chunks(queries: Tensor, candidates: CandidateRows) -> Iterator[tuple[int, Tensor]]:
    """The first row, and the scores (B, C), of chunk after chunk; the next takes their place."""
    width, piece = _widths(queries, candidates.segments[0].vectors)
    width = min(width, max(len(segment) for segment in candidates.segments))
    room, first = queries.new_empty(len(queries), width + PADDING), 0
    for segment in candidates.segments:
        for start in range(0, len(segment), width):
            end = min(start + width, len(segment))
            for row in range(start, end, piece):
                last = min(row + piece, end)
                lengths = None if segment.lengths is None else segment.lengths[row:last]
                place = room[:, row - start : last - start]
                _score(queries, segment.vectors[row:last], lengths, place)
            yield first + start, room[:, : end - start]
        first += len(segment)


def _widths(queries: Tensor, vectors: Tensor) -> tuple[int, int]:
    """Candidates whose scores are held at once, and those of one product.

    Candidates in the precision of the queries are multiplied where they lie. Others are converted
    first, as many at a time as stay in a cache.
    """
    several, dimension = vectors.shape[1:]
    threads = torch.get_num_threads() if queries.device.type == "cpu" else GPU_THREADS
    each = max(1, len(queries) * several)
    width = max(1, CHUNK_SCORES * min(threads, MOST_CHUNKS) // each - PADDING)
    if vectors.dtype == queries.dtype:
        return width, width
    values = PIECE_VALUES * min(threads, MOST_CHUNKS) // (several * dimension)
    piece = max(PIECE_SCORES * threads // each, LEAST_PIECE)
    return width, max(1, min(width, piece, values))


def _score(queries: Tensor, vectors: Tensor, lengths: Tensor | None, out: Tensor) -> None:
    """Write the similarity (B, C) to some candidates, each as near as its nearest vector."""
    count, several = vectors.shape[:2]
    wide = vectors.to(queries.dtype).flatten(0, 1).T
    scores = torch.mm(queries, wide, out=out) if several == 1 else queries @ wide
    if lengths is not None:
        scores.div_(lengths.to(queries.dtype).flatten())
    if several > 1:
        torch.amax(scores.view(len(queries), count, several), dim=2, out=out)


def _without_dead(scores: Tensor, dead: Tensor, start: int) -> Tensor:
    """Scores of the rows from `start` on, with -inf in the columns of dead rows."""
    if len(dead) == 0:
        return scores
    ends = torch.tensor([start, start + scores.shape[1]], device=dead.device)
    first, last = torch.searchsorted(dead, ends).tolist()
    return scores.index_fill_(1, dead[first:last].to(scores.device) - start, -torch.inf)


def grouped_topk(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The values and columns (B, count) that `scores.topk(count)` gives, sooner for long rows.

    The `count` largest of a row lie in the `count` groups whose largest are the largest: one pass
    finds these, and the rest is done on them alone. Among equal scores another one may come first.
    """
    groups = scores.shape[1] // GROUP
    if not _long(scores) or 2 * count > groups:
        best, columns = scores.topk(count, dim=1)
        return best, columns
    first = _largest(scores).topk(count, dim=1).indices
    columns = (first[:, None] + groups * torch.arange(GROUP, device="cpu")[:, None]).flatten(1)
    rest = torch.arange(GROUP * groups, scores.shape[1], device="cpu").expand(len(scores), -1)
    columns = torch.cat((columns, rest), dim=1)
    best, order = scores.gather(1, columns).topk(count, dim=1)
    return best, columns.gather(1, order)


def few_above(scores: Tensor, count: int) -> bool:
    """Whether numbers above a floor are found sooner than the `count` largest."""
    return count > FEW and _long(scores)


def grouped_above(scores: Tensor, floor: Tensor) -> tuple[Tensor, Tensor]:
    """The values and columns (B, m) of the numbers above a row's floor (B, 1), in any order.

    Rows that have fewer are filled up with -inf.
    """
    groups = scores.shape[1] // GROUP
    row, group = (_largest(scores) > floor).nonzero(as_tuple=True)
    columns = group[:, None] + groups * torch.arange(GROUP, device="cpu")
    values = scores[row[:, None], columns]
    found, member = (values > floor[row]).nonzero(as_tuple=True)
    rows, columns, values = row[found], columns[found, member], values[found, member]
    rest = scores[:, GROUP * groups :]
    late, place = (rest > floor).nonzero(as_tuple=True)
    if len(late):
        rows, order = torch.cat((rows, late)).sort(stable=True)
        columns = torch.cat((columns, place + GROUP * groups))[order]
        values = torch.cat((values, rest[late, place]))[order]
    counts = rows.bincount(minlength=len(scores))
    ranks = torch.arange(len(rows), device="cpu") - (counts.cumsum(0) - counts)[rows]
    shape = (len(scores), int(counts.max()))
    best = values.new_full(shape, -torch.inf)
    best[rows, ranks] = values
    where = columns.new_zeros(shape)
    where[rows, ranks] = columns
    return best, where


def _long(scores: Tensor) -> bool:
    return scores.device.type == "cpu" and scores.shape[1] >= LEAST


def _largest(scores: Tensor) -> Tensor:
    """The largest (B, groups) of each group; those behind the last whole group are left out."""
    groups = scores.shape[1] // GROUP
    return scores[:, : GROUP * groups].view(len(scores), GROUP, groups).amax(dim=1)
