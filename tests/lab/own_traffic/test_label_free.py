"""Advice without labels: what is measured, when it adapts, and how many clicks settle the rest."""

import json
from dataclasses import replace
from math import comb
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import queryshift as qs
from queryshift.cli import main
from queryshift.lab.own_traffic.label_free_verdict import (
    Advice,
    Signals,
    hub_share,
    judge,
    signals_of,
)
from queryshift.lab.own_traffic.recommendation import DECISIVE_CLICKS, queries_needed, sign_test

GOOD = Signals(
    queries=500,
    changed=0.1,
    hub_share_before=0.3,
    hub_share_after=0.15,
    different_before=0.6,
    different_after=0.65,
    largest_share_after=0.02,
    repeats=1.0,
    shift_score=None,
)


def test_traffic_whose_hubs_lose_their_first_results_is_adapted_to():
    assert judge(GOOD)[0] == "adapt"
    lost = replace(GOOD, changed=0.9, hub_share_before=0.7, repeats=1.5)
    assert judge(lost)[0] == "adapt"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"largest_share_after": 0.9}, "one candidate comes first for 90 %"),
        ({"different_after": 0.3}, "0.60 per query before, 0.30 after"),
        ({"hub_share_after": 0.4}, "30 % before, 40 % after"),
        ({"changed": 0.001}, "changes only 0.1 % of the top-1 results"),
        ({"changed": 0.009}, "changes only 0.9 % of the top-1 results"),
    ],
)
def test_any_reason_against_decides(change, said):
    verdict, reasons = judge(replace(GOOD, **change))
    assert verdict == "do not adapt" and said in reasons[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"queries": 100}, "100 queries are too few"),
        ({"hub_share_after": 0.3}, "but the most frequent ones stay as frequent"),
        ({"changed": 0.4}, "helped as often as not"),
        ({"repeats": 1.5}, "ask for the same"),
    ],
)
def test_it_says_when_it_cannot_tell_and_what_would_settle_it(change, said):
    verdict, reasons = judge(replace(GOOD, **change))
    assert verdict == "cannot tell" and said in reasons[0]
    advice = Advice(verdict, "default", tuple(reasons), replace(GOOD, **change))
    assert advice.use == "frozen"
    queries = "180" if "changed" in change else "720"
    assert "72 clicks" in advice.sentence and f"at least {queries} queries" in advice.sentence


@pytest.mark.parametrize(
    ("measure", "values", "verdicts"),
    [
        ("queries", (127, 128), ("cannot tell", "adapt")),
        ("changed", (0.009, 0.01), ("do not adapt", "adapt")),
        ("changed", (0.15, 0.16), ("adapt", "cannot tell")),
        ("changed", (0.69, 0.7), ("cannot tell", "adapt")),
        ("largest_share_after", (0.5, 0.51), ("adapt", "do not adapt")),
        ("different_after", (0.47, 0.49), ("do not adapt", "adapt")),
        ("hub_share_after", (0.284, 0.286), ("adapt", "cannot tell")),
        ("hub_share_after", (0.34, 0.36), ("cannot tell", "do not adapt")),
        ("repeats", (1.25, 1.26), ("adapt", "cannot tell")),
    ],
)
def test_each_limit_is_where_it_is_said_to_be(measure, values, verdicts):
    found = tuple(judge(replace(GOOD, **{measure: value}))[0] for value in values)
    assert found == verdicts


def test_so_many_clicks_find_the_better_model_four_times_in_five():
    """By brute force over all outcomes of 72 and of 71 clicks, not by the code under test."""

    def power(count):
        p = [comb(count, wins) / 2**count for wins in range(count + 1)]
        won = [wins for wins in range(count + 1) if 2 * sum(p[wins:]) < 0.05]
        return sum(comb(count, w) * (2 / 3) ** w * (1 / 3) ** (count - w) for w in won)

    assert power(DECISIVE_CLICKS) >= 0.8 > power(DECISIVE_CLICKS - 1)


def test_a_sign_test_is_two_sided():
    assert sign_test(10, 2) == pytest.approx(2 * (66 + 12 + 1) / 4096)
    assert sign_test(3, 3) == 1.0


def test_the_labels_that_are_needed_show_the_gain_in_most_draws():
    rng, differ, gain = np.random.default_rng(0), 0.3, 0.05
    count = queries_needed(differ, gain)
    wins = rng.binomial(count, (differ + gain) / 2, size=2000)
    losses = rng.binomial(count - wins, (differ - gain) / 2 / (1 - (differ + gain) / 2))
    found = (wins - losses) / np.sqrt(wins + losses) > 1.96
    assert 0.77 < found.mean() < 0.83


def test_the_labels_that_are_needed_are_those_of_connors_formula():
    def plain(differ, gain):
        return ((1.96 * np.sqrt(differ) + 0.84 * np.sqrt(differ - gain * gain)) / gain) ** 2

    assert queries_needed(0.3, 0.25) == np.ceil(plain(0.3, 0.25)) == 36
    assert queries_needed(0.2, 0.1) == np.ceil(plain(0.2, 0.1))
    assert queries_needed(0.05, 0.3) == np.ceil((1.96**2 * 0.05) / 0.09)  # more gain than differ


def test_hubs_take_their_share_of_first_results():
    first = torch.tensor([3, 3, 3, 1, 2, 2])
    assert hub_share(first, 1) == 0.5
    assert hub_share(first, 2) == pytest.approx(5 / 6)


def test_queries_that_ask_for_the_same_lie_nearer_to_each_other_than_candidates():
    draw = torch.Generator().manual_seed(0)
    table = torch.randn(200, 16, generator=draw)
    noise = 0.3 * torch.randn(200, 16, generator=draw)
    gallery = qs.Gallery.from_vectors(range(200), table)
    first = torch.arange(200)
    apart = signals_of(first, first, table + noise, gallery, None)
    again = signals_of(first, first, table[first % 5] + noise, gallery, None)
    assert apart.repeats < 1.1 and again.repeats > 1.3


def test_measures_are_those_of_a_count_by_hand():
    gallery = qs.Gallery.from_vectors(range(200), torch.randn(200, 4))  # of which 1 % are two
    before, after = torch.tensor([7, 7, 7, 7, 3, 3, 1, 2]), torch.tensor([7, 7, 5, 6, 3, 3, 1, 1])
    found = signals_of(before, after, torch.randn(8, 4), gallery, 2.5)
    assert (found.queries, found.changed, found.shift_score) == (8, 3 / 8, 2.5)
    assert (found.hub_share_before, found.hub_share_after) == (6 / 8, 4 / 8)
    assert (found.different_before, found.different_after) == (4 / 8, 5 / 8)
    assert found.largest_share_after == 2 / 8
    assert found.spread == pytest.approx(1 / 3)


def test_in_a_small_gallery_one_candidate_is_the_most_frequent():
    gallery = qs.Gallery.from_vectors(range(30), torch.randn(30, 4))
    first = torch.tensor([7, 7, 3, 3, 3, 1])
    assert signals_of(first, first, torch.randn(6, 4), gallery, None).hub_share_before == 0.5


def test_a_method_that_changes_nothing_is_measured_so_and_the_named_one_is_judged():
    texts = [f"a {colour} {form}" for colour in ("red", "blue") for form in ("square", "arrow")]
    advice = qs.evaluate("tangram", texts, texts, methods=["tent:lr=0", "default"]).advice
    assert advice is not None and advice.method == "tent:lr=0.0"
    assert advice.signals.changed == 0
    assert advice.signals.hub_share_before == advice.signals.hub_share_after == 0.25


def nearest_other(vectors: np.ndarray) -> float:
    """Mean cosine of a vector to the nearest other around their mean, by loops."""
    around = [one - vectors.mean(axis=0) for one in vectors.astype(np.float64)]
    unit = [one / np.linalg.norm(one) for one in around]
    best = [max(a @ b for j, b in enumerate(unit) if j != i) for i, a in enumerate(unit)]
    return sum(best) / len(best)


def test_repetition_is_that_of_a_plain_loop():
    rng = np.random.default_rng(3)
    candidates = rng.normal(size=(30, 6)).astype(np.float32)
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    queries = rng.normal(size=(30, 6)).astype(np.float32) + 1
    gallery = qs.Gallery.from_vectors(range(30), torch.from_numpy(candidates))
    first = torch.arange(30)
    found = signals_of(first, first, torch.from_numpy(queries), gallery, None)
    expected = nearest_other(queries) / nearest_other(candidates)
    assert found.repeats == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("further", [True, False])
def test_the_shift_score_is_positive_where_queries_lie_further_from_the_gallery(further):
    rng = np.random.default_rng(0)
    gallery = rng.normal(size=(50, 12)).astype(np.float32)
    clear, noisy = (
        gallery[rng.integers(50, size=count)] + noise * rng.normal(size=(count, 12))
        for count, noise in ((60, 0.2), (40, 0.8))
    )
    asked, usual = (noisy, clear) if further else (clear, noisy)

    def cosines(rows):
        unit = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in (rows, gallery)]
        return (unit[0] @ unit[1].T).max(axis=1)

    near, usually = cosines(asked), cosines(usual)
    error = usually.std(ddof=1) * (1 / len(near) + 1 / len(usually)) ** 0.5
    given = [[*rows.astype(np.float32)] for rows in (gallery, asked, usual)]
    with pytest.warns(DeprecationWarning, match=r"evaluate\(reference=\)"):
        done = qs.evaluate(None, given[0], given[1], ordinary=given[2], methods=["frozen"])
    found = done.advice.signals.shift_score
    assert found == pytest.approx((usually.mean() - near.mean()) / error, rel=1e-3)
    assert (found > 0) is further


def test_reference_queries_keep_their_old_name_for_a_version(monkeypatch):
    given = []
    monkeypatch.setattr(
        "queryshift.lab.own_traffic.evaluate.evaluate", lambda **named: given.append(named) or 1 / 0
    )
    files = ["--gallery=g.npy", "--queries=q.npy"]
    for option in ("--reference", "--ordinary"):
        ran = CliRunner().invoke(main, ["evaluate", *files, f"{option}=r.npy"])
        assert given[-1]["reference"] == Path("r.npy") and "ordinary" not in given[-1]
        assert ("is now --reference" in ran.stderr) is (option == "--ordinary")
    assert "--ordinary" not in CliRunner().invoke(main, ["evaluate", "--help"]).output


class OneAnswer(qs.Encoder):
    """A dead model: every query has the same vector."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)

    def prepare(self, items):
        return torch.ones(len(items), 4) * torch.arange(4.0)

    def forward(self, prepared):
        return torch.nn.functional.normalize(self.norm(prepared), dim=1)


def test_a_source_with_one_answer_for_everything_is_not_adapted_to():
    gallery = {f"c{row}": f"candidate {row}" for row in range(4)}
    asked = [f"query {row}" for row in range(128)]
    done = qs.evaluate(OneAnswer, gallery, asked)
    assert done.advice is not None and done.advice.verdict == "do not adapt"
    assert done.rows == () and done.use == "frozen"
    known = qs.evaluate(OneAnswer, gallery, asked, reference=asked[:64])
    assert known.advice is not None and known.advice.verdict == "do not adapt"


def test_vectors_get_advice_about_the_default_and_labels_settle_it():
    """All queries are moved towards one candidate, which makes hubs of those around it."""
    rng = np.random.default_rng(0)
    gallery = list(rng.normal(size=(400, 24)).astype(np.float32))
    noise = 2 * rng.normal(size=(256, 24)).astype(np.float32)
    queries = list(gallery[:256] + 1.5 * gallery[300] + noise)
    done = qs.evaluate(None, gallery, queries)
    assert done.advice is not None and done.advice.verdict == "cannot tell"
    assert done.advice.signals.changed > 0.5 and done.verdict == done.advice.sentence
    assert "the default session, qs.Session(qs.Vectors(24), gallery)" in done.verdict
    alone = qs.evaluate(None, gallery, queries, methods=["frozen"])
    assert alone.advice is not None and alone.advice.method == "default"
    labelled = qs.evaluate(None, gallery, queries, matches={row: [row] for row in range(256)})
    assert labelled.use == "default" and labelled.verdict.startswith("Use the default session")


def test_the_command_and_the_page_give_the_advice(tmp_path):
    (tmp_path / "captions.txt").write_text("a red square\na blue arrow\na green star")
    files = [
        "--gallery",
        str(tmp_path / "captions.txt"),
        "--queries",
        str(tmp_path / "captions.txt"),
    ]
    files += ["--results", str(tmp_path / "results.jsonl"), "--out", str(tmp_path / "page.html")]
    ran = CliRunner().invoke(main, ["evaluate", "--model", "tangram", *files, "--json"])
    advice = json.loads(ran.stdout)["advice"]
    assert advice["verdict"] == "cannot tell" and advice["signals"]["queries"] == 3
    page = (tmp_path / "page.html").read_text()
    assert "3 queries are too few" in page and "most frequent 1 % of the candidates" in page
    shown = CliRunner().invoke(main, ["evaluate", "--model", "tangram", *files])
    assert "% before, " in shown.output  # a number and its unit stay on one line
    told = " ".join(shown.output.split())
    assert "Cannot tell whether the default session" in told and "72 clicks" in told
