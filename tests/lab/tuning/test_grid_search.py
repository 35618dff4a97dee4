"""Tuning: what is measured, what is chosen, and from what files."""

import json
from dataclasses import dataclass, replace

import pytest
import torch
from torch.nn.functional import normalize

import queryshift as qs
from miniature import Toy, items, shifted
from queryshift.errors import BadInput
from queryshift.lab.tuning.grid_search import FEWEST, Trial, _call_of, chosen, contrast, tune

GRID = {"rates": (1e-4, 1e-2), "temperatures": (0.02, 0.1)}
MATCHES = [[place] for place in range(60)]


@dataclass(frozen=True, kw_only=True)
class Mine(qs.Tent):
    """A method of one's own."""


@pytest.fixture(scope="module")
def asked(clean):
    return shifted(clean)


@pytest.fixture(scope="module")
def tuned(encoder, gallery, asked):
    return tune(encoder, gallery, asked, **GRID)


def trial(**given):
    return Trial(
        **{"lr": 1e-3, "temperature": 0.02, "contrast": 0.1, "similarity": 0.5, "variety": 0.9}
        | given
    )


class TestTheGrid:
    def test_has_every_point_once(self, tuned):
        points = [(one.lr, one.temperature) for one in tuned.trials]
        assert points == [(1e-4, 0.02), (1e-4, 0.1), (1e-2, 0.02), (1e-2, 0.1)]
        assert (tuned.source.lr, tuned.queries, tuned.labelled) == (0.0, 60, 0)
        assert tuned.source.recall is None

    def test_measures_what_a_session_at_that_point_finds(self, encoder, gallery, asked, tuned):
        order = torch.randperm(60, generator=torch.Generator().manual_seed(0)).tolist()
        session = qs.Session(encoder, gallery, qs.REST(lr=1e-2, temperature=0.1), guard=None)
        seen = session.answer([asked[row] for row in order])
        first = seen.top(1)
        assert tuned.trials[-1].similarity == pytest.approx(float(first.scores.mean()), abs=1e-5)
        assert tuned.trials[-1].variety == len(set(first.positions.flatten().tolist())) / 60

    def test_does_not_change_the_encoder(self, encoder, gallery, asked):
        before = encoder.fingerprint()
        again = tune(encoder, gallery, asked, **GRID)
        assert encoder.fingerprint() == before
        assert again == tune(encoder, gallery, asked, **GRID)

    def test_takes_another_method(self, encoder, gallery, asked):
        found = tune(encoder, gallery, asked, qs.Tent(weight_decay=0.0), rates=(1e-3,))
        assert found.method == "Tent"
        assert len(found.trials) == 3

    def test_takes_a_sample(self, encoder, gallery, asked):
        found = tune(encoder, gallery, asked, rates=(1e-3,), temperatures=(0.02,), sample=20)
        assert found.queries == 20


class TestLabels:
    def test_give_recall_and_decide(self, encoder, gallery, asked):
        found = tune(encoder, gallery, asked, **GRID, matches=MATCHES)
        assert found.labelled == 60
        every = (found.source, *found.trials)
        order = torch.randperm(60, generator=torch.Generator().manual_seed(0)).tolist()
        plain = gallery.search(encoder.encode([asked[row] for row in order]), 1).positions[:, 0]
        right = (plain == torch.tensor(order)).double().mean()
        assert found.source.recall == pytest.approx(100 * float(right))
        assert found.best.recall == max(one.recall for one in every)

    def test_may_be_few(self, encoder, gallery, asked):
        few = [right if place < 5 else [] for place, right in enumerate(MATCHES)]
        found = tune(encoder, gallery, asked, rates=(1e-3,), matches=few)
        assert found.labelled == 5
        assert found.source.recall in {0, 20, 40, 60, 80, 100}

    def test_must_be_one_list_for_each_query(self, encoder, gallery, asked):
        with pytest.raises(BadInput, match="matches for 3 of 60 queries"):
            tune(encoder, gallery, asked, matches=MATCHES[:3])


class TestTheChoice:
    def test_without_labels_is_the_highest_contrast(self):
        trials = [trial(contrast=0.2), trial(contrast=0.3), trial(contrast=0.25)]
        assert chosen(trial(), trials) is trials[1]

    def test_without_labels_is_of_the_smallest_rate_that_gains_most_of_it(self):
        found = ((1e-3, 0.2), (3e-3, 0.27), (3e-3, 0.28), (1e-2, 0.3))  # of 0.2 to be gained
        trials = [trial(lr=rate, contrast=contrast) for rate, contrast in found]
        assert chosen(trial(), trials) is trials[2]
        collapsed = trial(lr=1e-1, contrast=0.9, variety=0.1)
        assert chosen(trial(), [*trials, collapsed]) is trials[2]

    def test_with_labels_is_the_highest_recall_then_contrast(self):
        trials = [trial(contrast=0.3, recall=40.0), trial(contrast=0.2, recall=50.0)]
        trials.append(trial(contrast=0.25, recall=50.0))
        assert chosen(trial(recall=30.0), trials) is trials[2]

    def test_leaves_out_collapsed_ones(self):
        collapsed, sound = trial(contrast=0.9, variety=0.3), trial(contrast=0.2)
        assert chosen(trial(), [collapsed, sound]) is sound
        assert chosen(trial(), [collapsed]) is None

    def test_is_none_where_nothing_beats_the_source(self):
        assert chosen(trial(contrast=0.3), [trial(contrast=0.2)]) is None
        assert chosen(trial(recall=50.0), [trial(recall=40.0, contrast=0.9)]) is None


class TestContrast:
    def test_of_pairs_far_apart_is_what_the_formula_says(self):
        queries = answers = torch.eye(20)
        around = torch.zeros(20, 10).index_fill_(1, torch.tensor([0]), 1)
        assert contrast(queries, answers, around) == pytest.approx(2 - 0.1 - 0.1)

    def test_is_nothing_where_all_queries_have_become_one(self):
        one = normalize(torch.randn(1, 8, generator=torch.Generator().manual_seed(0))).expand(20, 8)
        assert contrast(one, one, torch.ones(20, 10)) == pytest.approx(0, abs=1e-5)


class TestTheRecommendation:
    def test_is_a_line_that_makes_the_method(self, tuned):
        made = eval(tuned.line, {"qs": qs})
        assert tuned.best is not None
        assert (made.lr, made.temperature) == (tuned.best.lr, tuned.best.temperature)

    @pytest.mark.parametrize(
        ("method", "expected"),
        [
            (qs.REST(decouple=True, gap=False), "qs.REST(gap=False, decouple=True, "),
            (qs.Decoupled(qs.Tent()), "qs.Decoupled(qs.Tent(), "),
            (qs.Decoupled(qs.Refined(qs.SAR(share=0.5)), over="tensor"), None),
            (qs.SAR(reset_below=None), "qs.SAR(reset_below=None, "),
            (qs.Refined(qs.Tent(lr=9.0)), "qs.Refined(qs.Tent(), "),
            (qs.EATA(fisher={"a": torch.ones(2)}), "qs.EATA(fisher=fisher, "),
            (Mine(), "Mine("),
        ],
        ids=lambda value: None,
    )
    def test_keeps_what_the_method_was_made_with(self, method, expected, tuned):
        known = {"qs": qs, "Mine": Mine, "fisher": getattr(method, "fisher", None)}
        line = replace(tuned, call=_call_of(method)).line
        assert expected is None or line.startswith(f"{expected}lr=")
        again = replace(eval(line, known), lr=method.lr, temperature=method.temperature)
        inner = getattr(method, "method", None)
        assert again == (method if inner is None else replace(method, method=again.method))
        assert inner is None or type(again.method) is type(inner)

    def test_without_a_gain_is_not_to_adapt(self, tuned):
        none = type(tuned)(**{**vars(tuned), "best": None})
        assert (none.line, none.at_edge) == ("qs.Frozen()", None)

    def test_says_when_the_best_rate_is_the_last_one(self, tuned):
        for rate, edge in ((1e-4, "smallest"), (1e-2, "largest"), (1e-3, None)):
            best = type(tuned.source)(**{**vars(tuned.source), "lr": rate})
            assert type(tuned)(**{**vars(tuned), "best": best}).at_edge == edge

    def test_goes_into_json(self, tuned):
        found = json.loads(json.dumps(tuned.as_dict()))
        assert "call" not in found  # half an expression: "line" has the whole
        assert found["line"] == tuned.line
        assert found["trials"][2]["lr"] == 1e-2


class TestMatchesThatAreNoPositions:
    @pytest.mark.parametrize("wrong", ["c3", 60, -1, 2.5])
    def test_are_refused(self, wrong, encoder, gallery, asked):
        with pytest.raises(BadInput, match=rf"got {wrong!r} as a match.*0 to 59: gallery\.pos"):
            tune(encoder, gallery, asked, matches=[[0, wrong]] + [[]] * 59)


def test_too_few_queries_are_refused(encoder, gallery):
    with pytest.raises(BadInput, match=f"a sample of 3 queries, expected at least {FEWEST}"):
        tune(encoder, gallery, items(3))
    with pytest.raises(BadInput, match="a sample of 4 queries"):
        tune(Toy(), gallery, items(30), sample=4)
