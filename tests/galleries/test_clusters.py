"""Centroids: seeded, of unit length, made when they are asked for."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from queryshift import Gallery
from queryshift.galleries import clusters
from queryshift.galleries.memory import exact_gallery


def vectors(count: int, several: int = 1, dimension: int = 6, seed: int = 0) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return normalize(torch.randn(count, several, dimension, generator=draw), dim=2)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 3), st.integers(0, 99))
def test_as_many_unit_centres_as_asked_or_as_there_are(candidates, count, several, seed):
    found = clusters.spherical_kmeans(vectors(candidates, several, seed=seed), count)
    assert found.shape == (min(count, candidates), 6)
    lengths = torch.linalg.vector_norm(found, dim=1)
    assert torch.allclose(lengths, torch.ones(len(found)), atol=1e-5)


def test_well_separated_groups_are_found():
    middles = torch.eye(6)[:4].repeat_interleave(20, dim=0)
    group = normalize(middles + 0.05 * vectors(80)[:, 0], dim=1)
    found = clusters.spherical_kmeans(group[:, None], 4)
    nearest, owner = (torch.eye(6)[:4] @ found.T).max(dim=1)
    assert sorted(owner.tolist()) == [0, 1, 2, 3]
    assert nearest.min() > 0.99


def test_the_same_seed_gives_the_same_centres():
    many = vectors(200)
    assert torch.equal(clusters.spherical_kmeans(many, 9), clusters.spherical_kmeans(many, 9))
    other = clusters.spherical_kmeans(many, 9, seed=1)
    assert not torch.equal(clusters.spherical_kmeans(many, 9), other)


def test_a_large_gallery_is_sampled(monkeypatch):
    monkeypatch.setattr(clusters, "SAMPLE", 30)
    many = vectors(100)
    rows = torch.randperm(100, generator=torch.Generator().manual_seed(0))[:30].sort().values
    spoilt = many.clone()
    spoilt[[row for row in range(100) if row not in rows.tolist()]] = torch.nan
    assert torch.equal(clusters.spherical_kmeans(many, 5), clusters.spherical_kmeans(spoilt, 5))


def test_candidates_that_are_all_alike_still_have_centres():
    found = clusters.spherical_kmeans(vectors(1).expand(20, 1, 6), 4)
    assert torch.allclose(found, vectors(1)[0].expand(4, 6), atol=1e-6)


def test_a_centre_that_serves_nobody_starts_again_at_the_worst_served_candidate(monkeypatch):
    """Two of three centres start alike in the second group, none in the third."""
    monkeypatch.setattr(clusters, "_spread", lambda all_, count, _: all_[[0, 20, 20]])
    axes = torch.eye(6)
    middles = normalize(torch.stack((axes[0], axes[1], axes[2] + 0.5 * axes[0])), dim=1)
    groups = normalize(middles.repeat_interleave(20, dim=0) + 0.05 * vectors(60)[:, 0], dim=1)
    found = clusters.spherical_kmeans(groups[:, None], 3)
    assert (middles @ found.T).amax(dim=1).min() > 0.99


def test_a_candidate_of_several_vectors_counts_by_its_mean():
    several = vectors(1, several=3)
    expected = normalize(several.mean(dim=1), dim=1)
    assert torch.allclose(Gallery("a", several).centroids(1), expected, atol=1e-6)


def test_a_gallery_makes_its_centroids_late_and_once_per_count(monkeypatch):
    asked = []

    def counted(candidates, count):
        asked.append(count)
        return clusters.spherical_kmeans(candidates, count)

    monkeypatch.setattr(exact_gallery, "spherical_kmeans", counted)
    gallery = Gallery.from_vectors(range(30), vectors(30))
    assert asked == []
    assert gallery.centroids(5) is gallery.centroids(5)
    gallery.centroids(7)
    assert asked == [5, 7]


def test_half_precision_has_centroids_in_float32():
    assert Gallery("ab", vectors(2).bfloat16()).centroids(1).dtype == torch.float32
    assert Gallery("ab", vectors(2).double()).centroids(1).dtype == torch.float64


@pytest.mark.parametrize("seed", range(8))
def test_first_centres_are_far_from_each_other_however_few_candidates_are_there(seed, monkeypatch):
    """Three hundred candidates are alike, and three are like no other."""
    monkeypatch.setattr(clusters, "ITERATIONS", 0)
    alike = torch.eye(6)[[0] * 300 + [1, 2, 3]][:, None]
    found = clusters.spherical_kmeans(alike, 4, seed=seed)
    assert sorted(found.argmax(dim=1).tolist()) == [0, 1, 2, 3]
