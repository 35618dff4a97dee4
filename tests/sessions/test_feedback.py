"""Clicks score source and adapted answers side by side; a session goes live and back."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from miniature import Toy, items
from queryshift import REST, ClickScores, Gallery, Session
from queryshift.errors import BadInput


@pytest.fixture()
def session() -> Session:
    encoder = Toy()
    return Session(encoder, Gallery.build(encoder, items(40)), REST(lr=0.05), mode="shadow")


def scores_of(*ranks: tuple[int, int]) -> ClickScores:
    """Scores of clicks with these ranks under source and adapted, 0 for one that is not listed."""
    scores = ClickScores()
    for source, adapted in ranks:
        lists = [["x"] * (rank - 1) + ["it"] if rank else ["x"] for rank in (source, adapted)]
        scores.add_click("it", *lists)
    return scores


class TestScores:
    def test_mean_reciprocal_ranks_wins_and_losses(self):
        summary = scores_of((2, 1), (1, 4), (0, 5), (3, 3)).summary()
        assert summary.clicks == 4
        assert summary.source_mrr == pytest.approx((1 / 2 + 1 + 0 + 1 / 3) / 4)
        assert summary.adapted_mrr == pytest.approx((1 + 1 / 4 + 1 / 5 + 1 / 3) / 4)
        assert (summary.wins, summary.losses) == (2, 1)
        assert summary.win_share == pytest.approx(2 / 3)
        assert summary.gain == summary.adapted_mrr - summary.source_mrr

    @pytest.mark.parametrize(
        ("ranks", "better"),
        [
            ([(2, 1)] * 30 + [(1, 2)] * 5, "adapted"),
            ([(1, 2)] * 30 + [(2, 1)] * 5, "source"),
            ([(2, 1)] * 5 + [(1, 2)] * 5, None),
            ([(1, 1)] * 50, None),
            ([(2, 1)] * 29, None),  # too few to say
            ([(2, 1)] * 30, "adapted"),
            ([(1, 2)] * 29, None),
            ([(1, 2)] * 30, "source"),
        ],
    )
    def test_which_is_better(self, ranks, better):
        assert scores_of(*ranks).summary().better == better

    def test_the_sign_test_is_exact(self):
        summary = scores_of(*[(2, 1)] * 9, (1, 2)).summary()
        assert summary.sign_p == pytest.approx(2 * (1 + 10) / 2**10)
        assert scores_of((1, 1)).summary().sign_p == 1.0
        assert scores_of((1, 1)).summary().win_share is None

    def test_the_interval_is_a_bootstrap_over_clicks(self):
        """Against resamples of the clicks themselves, one by one."""
        rng = np.random.default_rng(3)
        ranks = [tuple(int(rank) for rank in rng.integers(0, 6, size=2)) for _ in range(80)]
        gains = np.array([(a and 1 / a) - (s and 1 / s) for s, a in ranks])
        means = gains[rng.integers(80, size=(20_000, 80))].mean(axis=1)
        expected = np.quantile(means, (0.025, 0.975))
        assert np.allclose(scores_of(*ranks).summary().interval, expected, atol=0.01)

    def test_any_thread_may_add(self):
        scores = ClickScores()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: scores.add_click(1, [1], [2, 1]), range(4000)))
        assert scores.summary().clicks == 4000

    def test_without_clicks_nothing_is_said(self):
        with pytest.raises(BadInput, match="no clicks yet"):
            ClickScores().summary()

    @pytest.mark.parametrize("fewer", [0, 1, 2, 3])
    def test_the_sign_test_is_two_sided_and_at_most_1(self, fewer):
        summary = scores_of(*[(2, 1)] * (6 - fewer), *[(1, 2)] * fewer).summary()
        ways = sum(math.comb(6, one) for one in range(fewer + 1))
        assert summary.sign_p == pytest.approx(min(1.0, 2 * ways / 2**6))

    def test_counting_goes_on_from_what_was_counted(self):
        before = scores_of((2, 1), (1, 4), (2, 1)).counts()
        assert before == {(2, 1): 2, (1, 4): 1}
        scores = ClickScores(before)
        scores.add_click("it", ["x", "it"], ["it"])
        assert scores.counts() == {(2, 1): 3, (1, 4): 1}


class TestAnswers:
    def test_a_click_below_the_tenth_hit_was_not_listed(self, session):
        answer, scores = session.answer(items(40)[:1]), ClickScores()
        ids = answer.top(11).ids[0]
        for place, rank in ((9, 10), (10, 0)):
            scores.add(answer, [ids[place]])
            assert next(reversed(scores.counts()))[0] == rank

    def test_a_batch_is_scored_by_both_answers(self, session):
        for _ in range(3):
            session.answer(items(40))
        answer, scores = session.answer(items(40)), ClickScores()
        scores.add(answer, [row if row % 2 else None for row in range(40)], count=40)
        expected = ClickScores()
        both = zip(answer.top(40).ids, answer.adapted.top(40).ids, strict=True)
        for row, (source, adapted) in enumerate(both):
            if row % 2:
                expected.add_click(row, source, adapted)
        assert scores.summary() == expected.summary()
        assert scores.summary().clicks == 20

    def test_a_click_for_each_query(self, session):
        answer = session.answer(items(4))
        with pytest.raises(BadInput, match="got 3 clicks for an answer of 4 queries"):
            ClickScores().add(answer, [0, 1, 2])

    def test_gathering_sessions_have_an_adapted_answer_too(self):
        encoder = Toy()
        gallery = Gallery.build(encoder, items(40))
        session = Session(encoder, gallery, REST(lr=0.05), mode="shadow", gather=8)
        for _ in range(3):
            session.answer(items(8))
        answer = session.answer(items(8))
        assert torch.equal(answer.top(5).scores, answer.source.top(5).scores)
        assert not torch.equal(answer.adapted.top(5).scores, answer.top(5).scores)


class TestModes:
    def test_going_live_answers_with_what_was_learnt(self, session):
        session.answer(items(40))
        learnt, history = session.state.adapted, session.history
        shadow = session.answer(items(8), adapt=False)
        session.go_live()
        live = session.answer(items(8), adapt=False)
        assert session.settings.mode == "live"
        assert session.state.adapted is learnt and session.history[: len(history)] == history
        assert torch.equal(live.top(5).scores, shadow.adapted.top(5).scores)
        assert not torch.equal(live.top(5).scores, shadow.top(5).scores)

    def test_and_back(self, session):
        source = session.answer(items(8), adapt=False).top(5).scores
        session.go_live()
        session.answer(items(40))
        learnt = session.state.adapted
        session.go_shadow()
        assert torch.equal(session.answer(items(8), adapt=False).top(5).scores, source)
        assert session.state.adapted is learnt

    def test_the_mode_is_kept_by_fork_and_save(self, session, tmp_path):
        session.go_live()
        session.save(tmp_path / "state")
        again = Session.load(tmp_path / "state", session.encoder, session.gallery)
        assert again.settings.mode == session.fork().settings.mode == "live"
