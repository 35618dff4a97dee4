"""What a saved session says of candidates holds where they have other numbers, and not else."""

from pathlib import Path

import pytest
import torch
from tests.galleries.reference_engine import ArrayEngine

from queryshift import Frozen, Hubs, Session
from queryshift.support.tensor_files import read
from toy import ToyEncoder, toy_gallery, toy_queries

STORED = Path(__file__).parents[1] / "data"


def test_a_session_over_an_engine_finds_its_candidates_again_in_another_process(tmp_path):
    encoder, memory = ToyEncoder(), toy_gallery(ToyEncoder(), 120)

    def engine():
        return ArrayEngine(memory.ids, memory.vectors[:, 0].numpy())

    session = Session(encoder, engine(), Frozen(), hubs=Hubs(depth=100), guard=None)
    first, second = (list(batch) for batch in toy_queries(2, 8, 120))
    session.answer(first)
    session.save(tmp_path / "session")
    fresh = engine()
    fresh.search(torch.eye(8)[3:5], 7)  # another process has met others first
    again = Session.load(tmp_path / "session", encoder, fresh, guard=None)
    before, after = (one.state.hubs for one in (session, again))
    best = session.gallery.ids_at(before.nearest[:, None])
    assert fresh.ids_at(after.nearest[:, None]) == best
    assert not torch.equal(after.nearest, before.nearest)
    asked, told = again.answer(second, adapt=False), session.answer(second, adapt=False)
    assert asked.top(5).ids == told.top(5).ids


@pytest.mark.parametrize(
    "name", ["format_1/rest", "format_1/eata", "format_2/default", "format_2/refined-infomax"]
)
def test_galleries_are_known_by_what_earlier_versions_wrote(name, gallery):
    """Else an upgrade would set every stored session aside."""
    _, about = read(STORED / f"{name}.session", "session", mapped=False)
    assert about["gallery"] == gallery.version
