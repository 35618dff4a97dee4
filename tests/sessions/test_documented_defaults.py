"""A session that is told nothing is as docs/session.md, guard.md and hub-correction.md say."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from queryshift import Frozen, Guard, Hubs, Session

DOCS = Path(__file__).parents[2] / "docs"
TABLE = (DOCS / "session.md").read_text(encoding="utf-8").partition("| setting | default |")[2]
ROWS = re.findall(r"^\| `(\w+)`(?:, `(\w+)`)? \| ([^|]+) \|", TABLE.partition("\n\n")[0], re.M)
TOLD = {name: cell.strip("`") for *names, cell in ROWS for name in names if name}
BY_METHOD = ("hubs", "score_from")  # whose defaults depend on the method


def value(cell: str):
    return Guard() if cell == "Guard()" else ast.literal_eval(cell.replace(",", ""))


def test_every_argument_has_its_default_in_the_table():
    given = inspect.signature(Session).parameters
    undocumented = {"encoder", "gallery", "method", "others", "watch_angle"}
    assert TOLD.keys() == given.keys() - undocumented
    for name in TOLD.keys() - {*BY_METHOD}:
        assert given[name].default == value(TOLD[name]), name


def test_a_session_has_them(encoder, gallery):
    session = Session(encoder, gallery, Frozen())
    settings = session.settings
    for name in TOLD.keys() - {*BY_METHOD, "lr", "matcher", "on_batch", "on_event"}:
        assert getattr(settings, name) == value(TOLD[name]), name
    assert (settings.score_from, settings.hubs, settings.watch_angle) == (
        "last_forward",
        None,
        False,
    )
    plain = Session(encoder, gallery).settings
    assert (plain.score_from, plain.hubs, plain.guard) == ("after", Hubs(), Guard())
    assert Session(encoder, gallery, guard=None).settings.hubs is None


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("guard.md", f"`Guard(spread={Guard().spread})`"),
        ("guard.md", f"`Guard(collapse={Guard().collapse})`"),
        ("hub-correction.md", f"keeps its last {Hubs().bank:,} distinct query vectors"),
        ("hub-correction.md", f"only each query's {Hubs().depth} best hits are corrected"),
        ("galleries.md", "ids=None, batch_size=64)"),
    ],
)
def test_limits_are_those_of_their_pages(page, sentence, encoder, gallery):
    assert Session(encoder, gallery).settings.hubs == Hubs(bank=1024, depth=100)
    assert sentence in (DOCS / page).read_text(encoding="utf-8")
