"""Spelling correction, BM25 and rank fusion, on a handful of documents."""

import os
import sys

import pytest
import torch
from training.real.lexical import BM25, Speller, fused

from queryshift.errors import MissingExtra

DOCUMENTS = [
    "Lists every hosted zone of the account.",
    "Deletes the image and its tags.",
    "Lists tags of the hosted image.",
]


class TestSpeller:
    def test_words_become_the_nearest_of_the_documents(self):
        speller = Speller(DOCUMENTS)
        assert speller.corrected("Lsts hossted zonee 53") == "lists hosted zone 53"

    def test_a_word_that_is_near_nothing_stays(self):
        assert Speller(DOCUMENTS).corrected("kubernetes ACCOUNT") == "kubernetes account"

    def test_of_two_as_near_the_more_frequent_is_taken(self):
        assert Speller(["cart cart care", "care cart"]).corrected("carx") == "cart"

    def test_words_of_other_scripts(self):
        speller = Speller(["найти товары", "βρείτε προϊόντα"])
        assert speller.corrected("найтии προϊόντ") == "найти προϊόντα"


class TestBM25:
    def test_documents_with_rarer_words_of_the_query_come_first(self):
        scores = BM25(DOCUMENTS).scores(["hosted zone", "tags image"])
        assert scores.shape == (2, 3)
        assert scores.argmax(dim=1).tolist() == [0, 1]  # the shorter of two documents

    def test_jax_leaves_a_gpu_alone_unless_the_user_says_otherwise(self, monkeypatch):
        monkeypatch.setenv("JAX_PLATFORMS", "cuda")
        monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE", raising=False)
        BM25(DOCUMENTS)
        assert os.environ["JAX_PLATFORMS"] == "cuda"
        assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"

    def test_a_query_without_a_known_word_finds_nothing(self):
        scores = BM25(DOCUMENTS).scores(["hsoted zoen", "", "zone"])
        assert scores[:2].abs().max() == 0 < scores[2].max()


class TestFusion:
    def test_hand_computed(self):
        near = torch.tensor([[0.9, 0.5, 0.1]])
        lexical = torch.tensor([[0.0, 2.0, 1.0]])
        found = fused(near, lexical)[0].tolist()
        assert found == pytest.approx([1 / 61, 1 / 62 + 1 / 61, 1 / 63 + 1 / 62])

    def test_without_lexical_hits_the_order_stays(self):
        near = torch.rand(4, 9, generator=torch.Generator().manual_seed(0))
        found = fused(near, torch.zeros(4, 9))
        assert torch.equal(found.argsort(descending=True), near.argsort(descending=True))


@pytest.mark.parametrize(("module", "make"), [("bm25s", BM25), ("symspellpy", Speller)])
def test_a_missing_library_is_named(monkeypatch, module, make):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"queryshift\[search\]"):
        make(DOCUMENTS)
