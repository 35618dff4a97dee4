"""The recall of real indexes: measured, kept, and said once when a session starts."""

import json
import warnings

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import queryshift as qs
from queryshift.cli import main
from queryshift.errors import BadInput, GalleryMismatch
from queryshift.galleries.index_recall import moved_away

pytest.importorskip("faiss", exc_type=ImportError)

from new_collections import create_faiss as create

from queryshift.galleries.faiss import open as open_faiss
from toy import ToyEncoder, toy_gallery, toy_items

CANDIDATES = 4000


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Where checks are kept."""
    monkeypatch.setenv("QUERYSHIFT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(scope="module")
def memory():
    return toy_gallery(ToyEncoder(), CANDIDATES)


@pytest.fixture(scope="module")
def queries():
    return ToyEncoder().encode(list(toy_items(60, seed=9)))


@pytest.fixture(scope="module")
def lists(memory, tmp_path_factory):
    """The address of an index of 64 lists."""
    address = f"faiss:{tmp_path_factory.mktemp('lists')}/index"
    create(address, memory.ids, memory.vectors[:, 0].numpy(), "IVF64,Flat")
    return address


def warned(gallery) -> list[str]:
    """What sessions over a gallery say of its recall."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            qs.Session(ToyEncoder(), gallery, qs.REST())
    return [str(one.message) for one in said if one.category is qs.RecallWarning]


def test_recall_is_the_share_of_the_exact_best(memory, queries, lists):
    gallery = open_faiss(f"{lists}?nprobe=2")
    check = qs.check_recall(gallery, queries)
    near = gallery.find_exact(queries.numpy(), 10)
    moved = torch.from_numpy(moved_away(queries.numpy(), near))
    for vectors, recall in ((queries, check.ordinary), (moved, check.shifted)):
        exact, found = memory.search(vectors, 100).ids, gallery.find(vectors.numpy(), 100)
        both = [len({*hits.ids} & {*best}) / 100 for hits, best in zip(found, exact, strict=True)]
        assert recall.at_depth == pytest.approx(np.mean(both), abs=1e-9)
        best = [
            len({*hits.ids} & {*best[:10]}) / 10 for hits, best in zip(found, exact, strict=True)
        ]
        assert recall.at_10 == pytest.approx(np.mean(best), abs=1e-9)
    assert check.recall < 0.97 and not check.enough


def test_shifted_queries_are_farther_from_all_candidates_at_unit_length(queries, memory, lists):
    near = open_faiss(lists).find_exact(queries.numpy(), 10)
    moved = torch.from_numpy(moved_away(queries.numpy(), near))
    assert torch.allclose(moved.norm(dim=1), torch.ones(len(moved)), atol=1e-6)
    before, after = (memory.search(one, 1).scores for one in (queries, moved))
    assert after.mean() < before.mean() - 0.002


def test_the_advice_finds_enough(queries, lists):
    check = qs.check_recall(open_faiss(f"{lists}?nprobe=1"), queries)
    words = check.advice.split('"')
    assert words[0] == "add " and words[1].startswith("nprobe=")
    better = qs.check_recall(open_faiss(f"{lists}?{words[1]}"), queries)
    assert better.enough and better.advice == "" and better.recall > check.recall
    assert better.breadth == words[1]


def test_a_compressed_index_is_advised_to_rank_more_hits_again(memory, queries, tmp_path):
    address = f"faiss:{tmp_path}/pq"
    coarse = create(address, memory.ids, memory.vectors[:, 0].numpy(), "PQ2x4")
    assert "make sessions with depth=90" in qs.check_recall(coarse, queries, depth=30).advice
    assert "less compression" in qs.check_recall(coarse, queries, depth=10).advice


class TestSessions:
    def test_say_once_that_nothing_is_known(self, lists):
        (text,) = warned(open_faiss(lists))
        assert "is not known" in text and "queryshift gallery check" in text

    def test_say_nothing_where_enough_is_found(self, lists, queries):
        assert qs.check_recall(open_faiss(lists), queries).enough
        assert warned(open_faiss(lists)) == []

    def test_say_what_to_do_where_too_little_is_found(self, lists, queries):
        low = f"{lists}?nprobe=1"
        check = qs.check_recall(open_faiss(low), queries)
        (text,) = warned(open_faiss(low))
        assert f"finds {check.recall:.3f}" in text and check.advice in text

    def test_take_a_check_for_the_breadth_it_was_made_at(self, lists, queries):
        qs.check_recall(open_faiss(lists), queries)
        (text,) = warned(open_faiss(f"{lists}?nprobe=2"))
        assert "is not known" in text

    def test_take_no_check_of_other_candidates(self, memory, lists, queries, tmp_path):
        address, rows = f"faiss:{tmp_path}/changing", memory.vectors[:, 0].numpy()
        for count, said in ((4000, 0), (3990, 0), (3000, 1)):
            gallery = create(address, memory.ids[:count], rows[:count], "IVF16,Flat")
            if count == 4000:
                qs.check_recall(gallery, queries)
            assert len(warned(open_faiss(address))) == said

    def test_need_none_for_an_exact_index(self, memory, tmp_path):
        rows = memory.vectors[:, 0].numpy()
        assert warned(create(f"faiss:{tmp_path}/flat", memory.ids, rows)) == []
        assert warned(memory) == []

    def test_hear_of_a_gallery_that_takes_the_place_of_another(self, memory, lists):
        session = qs.Session(ToyEncoder(), memory, qs.REST())
        with pytest.warns(qs.RecallWarning, match="is not known"):
            session.gallery = open_faiss(lists)

    def test_take_a_damaged_file_for_none(self, lists, queries, home):
        qs.check_recall(open_faiss(lists), queries)
        (kept,) = (home / "recall").iterdir()
        kept.write_text("{")
        assert "is not known" in warned(open_faiss(lists))[0]


def test_rest_over_the_index_is_compared_with_rest_over_exact_search(lists):
    items = list(toy_items(80, seed=9))
    check = qs.check_recall(open_faiss(lists), items, encoder=ToyEncoder())
    assert check.agreement == {"frozen": 1.0, "rest": 1.0}
    narrow = qs.check_recall(open_faiss(f"{lists}?nprobe=1"), items, encoder=ToyEncoder())
    assert 0 < narrow.agreement["rest"] < 1


def test_a_check_that_cannot_be_kept_is_not_lost(lists, queries, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("QUERYSHIFT_HOME", str(tmp_path / "file"))
    with pytest.warns(qs.RecallWarning, match="set QUERYSHIFT_HOME"):
        assert qs.check_recall(open_faiss(lists), queries).enough


def test_what_cannot_be_checked_is_refused(memory, lists, queries):
    with pytest.raises(BadInput, match="is searched exactly"):
        qs.check_recall(memory, queries)
    with pytest.raises(GalleryMismatch, match=r"expected \(queries, 8\)"):
        qs.check_recall(open_faiss(lists), torch.ones(3, 9))
    with pytest.raises(BadInput, match="got no queries"):
        qs.check_recall(open_faiss(lists), [])
    with pytest.raises(BadInput, match="only zeros"):
        qs.check_recall(open_faiss(lists), torch.zeros(3, 8))


class TestCommand:
    def ask(self, *words):
        return CliRunner().invoke(main, ["gallery", "check", *map(str, words)])

    @pytest.fixture
    def file(self, queries, tmp_path):
        np.save(tmp_path / "asked.npy", queries.numpy())
        return tmp_path / "asked.npy"

    def test_prints_a_table_and_keeps_the_result(self, lists, file):
        told = self.ask(lists, "--queries", file, "--sample", 50)
        assert told.exit_code == 0 and "50 queries, nprobe=64" in told.output
        assert "recall@10" in told.output and "Enough for sessions." in told.output
        assert warned(open_faiss(lists)) == []

    def test_fails_where_too_little_is_found(self, lists, file):
        told = self.ask(f"{lists}?nprobe=1", "--queries", file, "--json")
        assert told.exit_code == 1
        result = json.loads(told.output)
        assert result["enough"] is False and "nprobe=" in result["advice"]

    def test_has_nothing_to_measure_of_an_exact_gallery(self, memory, file, tmp_path):
        memory.save(tmp_path / "exact.safetensors")
        told = self.ask(tmp_path / "exact.safetensors", "--queries", file)
        assert told.exit_code == 0 and "nothing to measure" in told.output

    def test_refuses_items_without_a_model(self, lists, tmp_path):
        (tmp_path / "asked.txt").write_text("a caption")
        told = self.ask(lists, "--queries", tmp_path / "asked.txt")
        assert told.exit_code == 2 and "--model" in told.output

    def test_corrupts_items_of_a_model(self, tmp_path):
        text = qs.load("tangram")["text"]
        shapes = ("square", "circle", "star", "arrow", "moon", "heart", "cross", "ring")
        colours = ("red", "blue", "green", "purple", "yellow", "white", "orange", "grey")
        captions = [
            f"a {one} {shape} and a {other} {shape}"
            for one in colours
            for other in colours
            for shape in shapes
        ]
        vectors = text.encode(captions).numpy()
        create(f"faiss:{tmp_path}/captions", captions, vectors, "IVF8,Flat")
        (tmp_path / "asked.txt").write_text("\n".join(captions[::9]))
        address = f"faiss:{tmp_path}/captions?nprobe=8"
        told = self.ask(address, "--queries", tmp_path / "asked.txt", "--model", "tangram")
        assert told.exit_code == 0, told.output
        assert "corrupted" in told.output and "rest: 100.0% of the top-1 results" in told.output
