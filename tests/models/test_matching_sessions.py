"""Sessions with a matcher: every method, both directions, on BLIP and on tangram."""

import pytest
import torch
from three_items import SENTENCES, pictures

import queryshift as qs
from queryshift.encoders.matcher import PREFIX, Matching
from queryshift.errors import BadFile, BadInput
from queryshift.lab import tangram
from queryshift.lab.evaluation.stream_evaluation import run
from queryshift.models import load, matcher

MODELS = ("BlipForImageTextRetrieval", "tangram")
CASES = [(name, query) for name in MODELS for query in ("image", "text")]
RERANK = 4


@pytest.fixture(scope="module")
def setting(checkpoint):
    """By model and modality of the query: encoder, gallery, matching and eight queries."""
    scenes = tangram.scenes("test", 24)
    items = {
        "image": [scene.image() for scene in scenes],
        "text": [tangram.captions(scene)[0] for scene in scenes],
    }
    blip = {"image": pictures(24), "text": [f"{SENTENCES[i % 3]} {chr(97 + i)}" for i in range(24)]}
    made = {}
    for name, both in ((MODELS[0], blip), (MODELS[1], items)):
        model = load(checkpoint(name) if name != "tangram" else name)
        for query, other in (("image", "text"), ("text", "image")):
            gallery = qs.Gallery.build(model[other], both[other])
            judge = matcher(model, query, RERANK).over(both[other])
            made[name, query] = model[query], gallery, judge, both[query][:8]
    return lambda name, query: made[name, query]


def session_of(setting, case, method, **options):
    encoder, gallery, judge, queries = setting(*case)
    settings = {"lr": 1e-3, "steps": 2, "guard": None} | options
    session = qs.Session(encoder, gallery, method, matcher=judge, **settings)
    return session, queries


@pytest.mark.parametrize("case", CASES, ids="-".join)
@pytest.mark.parametrize("name", [name for name in qs.METHODS if name != "tcr_untrained"])
def test_every_method_runs_and_only_rest_adapts_the_matcher(setting, case, name):
    session, queries = session_of(setting, case, qs.METHODS[name]())
    before = {name: value.clone() for name, value in session.params.items()}
    hits = session.answer(queries).top(6)
    assert torch.isfinite(hits.scores).all()
    assert [len(set(row)) for row in hits.positions.tolist()] == [6] * 8
    own = {one for one in session.params if one.startswith(PREFIX)}
    assert bool(own) == (name == "rest")
    if name == "rest":
        assert all(not torch.equal(session.params[one], before[one]) for one in own)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_mining_by_cosine_leaves_the_matcher_as_it_is(setting, case):
    session, queries = session_of(setting, case, qs.REST(mine_with="cosine"))
    session.answer(queries)
    assert not any(name.startswith(PREFIX) for name in session.params)
    assert session.answer(queries).adapted.top(1).positions.shape[1] == 1
    assert session.adaptation.matching is not None


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_two_pairs_per_query_and_step_are_adapted_to(setting, case, monkeypatch):
    session, queries = session_of(setting, case, qs.REST())
    counted, plain = [], Matching.logits

    def logits(self, params, readings, positions):
        counted.append((torch.is_grad_enabled(), positions.numel()))
        return plain(self, params, readings, positions)

    monkeypatch.setattr(Matching, "logits", logits)
    session.answer(queries).top(1)
    assert [count for graph, count in counted if graph] == [2 * 8, 2 * 8]
    assert sum(count for graph, count in counted if not graph) == RERANK * 8


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_first_are_ranked_by_verdict_and_cosine_the_rest_behind_by_cosine(setting, case):
    encoder, gallery, judge, queries = setting(*case)
    session, _ = session_of(setting, case, qs.Frozen())
    found = session.answer(queries)
    hits = found.top(10)
    cosine = gallery.search(encoder.encode(queries), 10)
    with torch.no_grad():
        _, readings = encoder.through_for_matcher({}, encoder.ready(queries))
        verdict = judge.logits({}, readings, cosine.positions[:, :RERANK])[..., 1]
    expected, order = (verdict + cosine.scores[:, :RERANK]).sort(dim=1, descending=True)
    assert torch.equal(hits.positions[:, :RERANK], cosine.positions.gather(1, order))
    assert torch.allclose(hits.scores[:, :RERANK], expected, atol=1e-5)
    assert torch.equal(hits.positions[:, RERANK:], cosine.positions[:, RERANK:])
    assert torch.allclose(hits.scores[:, RERANK:], cosine.scores[:, RERANK:] - 100, atol=1e-4)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_saved_session_goes_on_to_the_bit(setting, case, tmp_path):
    encoder, gallery, judge, _ = setting(*case)
    session, queries = session_of(setting, case, qs.REST())
    session.answer(queries[:4])
    session.save(tmp_path / "state")
    again = qs.Session.load(tmp_path / "state", encoder, gallery, matcher=judge)
    ahead, behind = session.answer(queries[4:]).top(5), again.answer(queries[4:]).top(5)
    assert torch.equal(ahead.scores, behind.scores)
    assert torch.equal(ahead.positions, behind.positions)
    with pytest.raises(BadFile, match="pass the matcher it was saved with"):
        qs.Session.load(tmp_path / "state", encoder, gallery)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_chunks_give_the_same(setting, case):
    plain = qs.REST(optimiser="sgd")  # AdamW makes a large step of the smallest gradient
    whole, queries = session_of(setting, case, plain)
    pieces, _ = session_of(setting, case, plain, chunk=3)
    whole.answer(queries), pieces.answer(queries)
    for name, value in whole.params.items():
        assert torch.allclose(value, pieces.params[name], atol=1e-6), name


def test_streams_are_ranked_in_the_matchers_order(setting):
    session, queries = session_of(setting, ("tangram", "image"), qs.Frozen())
    found = run(session, queries, [(row,) for row in range(8)], batch_size=8)
    again, _ = session_of(setting, ("tangram", "image"), qs.Frozen())
    positions = again.answer(queries).top(24).positions.tolist()
    assert found.ranks.tolist() == [positions[row].index(row) + 1 for row in range(8)]


def test_one_text_is_no_list_of_candidates(setting):
    judge = setting("tangram", "image")[2].matcher
    for one, said in (("a star", "got one str as a batch"), ([], "got no candidates")):
        with pytest.raises(BadInput, match=said):
            judge.over(one)


def test_ordinary_queries_are_known_by_cosine_and_ranked_anew_by_the_source_s_matcher(setting):
    encoder, gallery, judge, queries = setting("tangram", "image")
    guard = qs.Guard(reference=qs.ReferenceQueries.of(encoder, gallery, queries))
    learning, _ = session_of(setting, ("tangram", "image"), qs.REST())
    learning.answer(queries)
    session, _ = session_of(setting, ("tangram", "image"), qs.REST(), guard=guard)
    session.restore(learning.state)
    found = session.answer(queries).top(6)
    assert session.state.reference_streak == 1 and abs(session.stats().shift_score) < 0.1
    source = qs.Session(encoder, gallery, qs.METHODS["frozen"](), matcher=judge)
    assert torch.equal(found.scores, source.answer(queries).top(6).scores)
    assert not torch.equal(found.scores, learning.answer(queries, adapt=False).top(6).scores)
