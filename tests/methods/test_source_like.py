"""The queue of source-like pairs: what joins, what stays, when it freezes."""

import pytest
import torch
from fixed_retrieval import DIMENSION, unit

from queryshift.galleries import Gallery
from queryshift.methods import REST, TCR, TCRUntrained
from queryshift.methods.losses import SourceLike, source_distance
from queryshift.retrieval.forward import Forward

GALLERY = Gallery.from_vectors(range(40), unit(40, DIMENSION, seed=0))


def batch(size: int, seed: int) -> Forward:
    return Forward(unit(size, DIMENSION, seed=seed + 10), GALLERY)


def filled(method, sizes: list[int]) -> list[SourceLike]:
    """The queue after each of some batches."""
    memory, seen = method.start(GALLERY, torch.device("cpu")), []
    for seed, size in enumerate(sizes):
        memory = method.observe(batch(size, seed), memory, step=0)
        seen.append(memory)
    return seen


@pytest.mark.parametrize("method", [TCR(), REST()], ids=["tcr", "rest"])
class TestBoth:
    def test_fills_in_four_batches_and_freezes_after_ten(self, method):
        queues = filled(method, [64] * 12)
        assert [len(queue) for queue in queues] == [19, 38, 57] + [64] * 9
        assert [queue.batches for queue in queues] == [*range(1, 11), 10, 10]
        assert queues[10] is queues[9]
        assert queues[11] is queues[9]

    def test_keeps_the_smallest_distances_of_all_that_joined(self, method):
        queues = filled(method, [64] * 6)
        joined = []
        for seed in range(6):
            seen = batch(64, seed)
            found = source_distance(seen.vectors, seen.nearest)
            joined += found.sort().values[:19].tolist()
        assert queues[-1].distances.tolist() == pytest.approx(sorted(joined)[:64], abs=1e-12)

    def test_acts_at_the_first_step_only(self, method):
        memory = filled(method, [64])[0]
        assert method.observe(batch(64, 3), memory, step=1) is memory

    def test_a_short_batch_neither_shrinks_nor_starves_it(self, method):
        assert [len(queue) for queue in filled(method, [64, 64, 64, 64, 8])] == [19, 38, 57, 64, 64]
        assert [len(queue) for queue in filled(method, [2, 3])] == [1, 2]

    def test_pairs_stay_together(self, method):
        seen = batch(64, 0)
        queue = filled(method, [64])[0]
        rows = [int((seen.vectors - query).norm(dim=1).argmin()) for query in queue.queries]
        torch.testing.assert_close(queue.candidates, seen.nearest[rows])
        distances = source_distance(seen.vectors, seen.nearest)
        torch.testing.assert_close(queue.distances, distances[rows])

    def test_holds_no_graph(self, method):
        seen = Forward(unit(8, DIMENSION, seed=1).requires_grad_(), GALLERY)
        memory = method.observe(seen, method.start(GALLERY, torch.device("cpu")), step=0)
        tensors = (memory.queries, memory.candidates, memory.distances, memory.entropies)
        assert not any(tensor.requires_grad for tensor in tensors)


def test_share_size_and_number_of_batches_are_fields():
    queues = filled(TCR(queue_share=0.5, queue_size=20, queue_batches=2), [32] * 3)
    assert [len(queue) for queue in queues] == [16, 20, 20]
    assert queues[2] is queues[1]
    assert filled(TCR(queue_batches=None), [16] * 12)[-1].batches == 12


@pytest.mark.parametrize(
    ("seen", "asked", "moves"), [(0, 4, False), (3, 1, False), (3, 2, True), (3, 4, True)]
)
def test_without_training_two_queries_or_more_are_moved_once_there_is_a_pair(seen, asked, moves):
    method = TCRUntrained()
    memory = filled(method, [seen])[0] if seen else method.start(GALLERY, torch.device("cpu"))
    assert len(memory) == min(seen, 1)
    forward = batch(asked, seed=5)
    assert torch.equal(method.view(forward, memory).vectors, forward.vectors) is not moves


def queue(pairs: int, batches: object) -> SourceLike:
    vectors = unit(pairs, DIMENSION, seed=0)
    return SourceLike(vectors, vectors, torch.zeros(pairs), torch.ones(pairs), batches)


@pytest.mark.parametrize(("pairs", "batches"), [(0, 0), (1, 1), (4, 1), (4, 10)])
def test_a_queue_from_a_file_is_taken_as_it_was_saved(pairs, batches):
    REST().check_memory(queue(pairs, batches), GALLERY)


@pytest.mark.parametrize(
    ("pairs", "batches"), [(0, -1), (0, 1), (1, 0), (4, 0), (4, -1), (4, True), (4, 1.0)]
)
def test_a_queue_whose_batches_cannot_be_is_refused(pairs, batches):
    with pytest.raises(ValueError, match=f"{pairs} source-like pairs are of {batches} batches"):
        REST().check_memory(queue(pairs, batches), GALLERY)


def test_gap_and_limit_by_hand():
    queries = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    candidates = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    queue = SourceLike(queries, candidates, torch.zeros(2), torch.tensor([0.25, 0.75]))
    assert queue.gap.item() == pytest.approx(0.5**0.5)
    assert queue.entropy_limit.item() == pytest.approx(0.75)


def test_entropies_are_those_of_the_methods_own_prediction_at_insertion():
    seen = batch(64, 0)
    p = (seen.vectors @ seen.nearest.T / 0.02).softmax(dim=1)
    expected = torch.special.entr(p).sum(dim=1)
    order = source_distance(seen.vectors, seen.nearest).argsort()[:19]
    torch.testing.assert_close(filled(TCR(), [64])[0].entropies, expected[order])
