"""Advice without labels: what is measured, and when it says not to adapt."""

import json
from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner

import queryshift as qs
from queryshift.cli import main
from queryshift.lab.own_traffic.label_free import Signals, hub_share, judge

GOOD = Signals(
    queries=500,
    largest_share=0.02,
    hub_share_before=0.05,
    hub_share_after=0.04,
    variety_before=0.6,
    variety_after=0.65,
    agreement=0.7,
    stability=0.8,
    nearer=0.05,
    strangeness=12.0,
)


def test_strange_queries_that_both_halves_change_alike_are_adapted_to():
    assert judge(GOOD)[0] == "adapt"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"queries": 100}, "100 queries are too few"),
        ({"largest_share": 0.9}, "one candidate 90 % of the first places"),
        ({"strangeness": 1.0}, "look ordinary"),
        ({"variety_after": 0.3}, "fewer different answers: 0.60 to 0.30"),
        ({"hub_share_after": 0.2}, "take more first places: 0.05 before, 0.20 after"),
        ({"nearer": -0.01}, "no nearer to their answers: -0.010"),
        ({"stability": 0.1}, "change only 10 % of the answers alike"),
        ({"agreement": 0.99}, "changes only 1 %"),
    ],
)
def test_any_reason_against_decides(change, said):
    verdict, reasons = judge(replace(GOOD, **change))
    assert verdict == "do not adapt" and said in reasons[0]


def test_it_says_when_it_cannot_tell():
    verdict, reasons = judge(replace(GOOD, strangeness=None))
    assert verdict == "cannot tell" and "give a sample of ordinary ones" in reasons[-1]
    assert judge(replace(GOOD, stability=0.2))[0] == "cannot tell"


def test_hubs_take_their_share_of_first_places():
    first = torch.tensor([3, 3, 3, 1, 2, 2])
    assert hub_share(first, 1) == 0.5
    assert hub_share(first, 2) == pytest.approx(5 / 6)


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
    assert "one candidate 100 % of the first places" in done.advice.reasons[0]
    assert done.rows == ()
    known = qs.evaluate(OneAnswer, gallery, asked, ordinary=asked[:64])
    assert known.advice is not None and known.advice.verdict == "do not adapt"


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
    assert advice["verdict"] == "do not adapt" and advice["signals"]["queries"] == 3
    assert "3 queries are too few" in (tmp_path / "page.html").read_text()
    shown = CliRunner().invoke(main, ["evaluate", "--model", "tangram", *files])
    assert "do not adapt (rest)" in shown.output and "hub share after" in shown.output
