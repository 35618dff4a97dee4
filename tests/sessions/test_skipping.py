"""A batch with items that cannot be read: refused with the item's index, or answered without it."""

import numpy as np
import pytest

from miniature import Toy, same
from queryshift import REST, Session
from queryshift.errors import BadInput, BadItem


class Choosy(Toy):
    """An encoder that cannot read text."""

    def prepare(self, items):
        for index, item in enumerate(items):
            if isinstance(item, str):
                raise BadItem(index, "expected numbers.", "a str")
        return super().prepare(items)


@pytest.fixture
def session(gallery):
    return Session(Choosy(), gallery, REST(), lr=0.01)


def test_a_bad_item_is_named_and_changes_nothing(session, batches):
    mixed = [*batches[0][:3], "what?", *batches[0][3:]]
    with pytest.raises(BadItem, match="item 3, a str: expected numbers") as refused:
        session.answer(mixed)
    assert refused.value.index == 3 and session.state.batches == 0


def test_the_others_are_answered_as_if_it_were_not_there(session, batches):
    batch = batches[0]
    mixed = ["a", *batch[:3], "b", *batch[3:], "c"]
    answer, plain = session.answer(mixed, on_bad="skip"), session.fork()
    plain.reset()
    expected = plain.answer(batch)
    assert [bad.index for bad in answer.skipped] == [0, 4, 14] and len(answer) == 12
    assert same(answer.top(5), expected.top(5)) and same(plain.params, session.params)
    assert repr(answer).endswith("3 skipped)")


def test_exclusions_stay_with_their_queries(session, batches):
    exclude = [["c1"], "c2", None, ["c3"]]
    mixed = [batches[0][0], "bad", *batches[0][1:3]]
    answer = session.answer(mixed, exclude=exclude, on_bad="skip").top(59)
    assert "c1" not in answer.ids[0] and "c2" in answer.ids[1] and "c3" not in answer.ids[2]


def test_gathered_queries_are_those_that_were_read(gallery, batches):
    session = Session(Choosy(), gallery, REST(), gather=12)
    session.answer([*batches[0][:5], "bad"], on_bad="skip")
    assert len(session._updater.gathered) == 5


def test_one_readable_query_is_enough(session, batches):
    answer = session.answer(["a", batches[0][0]], on_bad="skip")
    assert len(answer) == 1 and [bad.index for bad in answer.skipped] == [0]


def test_nothing_readable_is_an_error(session):
    with pytest.raises(BadItem):
        session.answer(["a", "b"], on_bad="skip")


def test_the_choice_is_checked(session, batches):
    with pytest.raises(BadInput, match='no choice of on_bad "drop"'):
        session.answer(batches[0], on_bad="drop")


def test_pictures_of_a_real_model_are_skipped_too():
    import queryshift as qs
    from queryshift.lab import tangram

    model, scenes = qs.load("tangram"), tangram.scenes("dev", 4)
    texts = [tangram.captions(scene)[0] for scene in scenes]
    session = qs.Session(model["image"], qs.Gallery.build(model["text"], texts), qs.Frozen())
    pictures = [scene.image() for scene in scenes]
    answer = session.answer([pictures[0], np.full((2, 2, 7), 0.5), pictures[1]], on_bad="skip")
    assert len(answer) == 2 and answer.skipped[0].index == 1


def test_a_gallery_of_another_dimension_is_refused_when_the_session_is_made(gallery):
    class Told(Toy):
        dimension = 5

    with pytest.raises(BadInput, match="gives vectors of 5 dimensions, the gallery has 8"):
        Session(Told(), gallery, REST())


def test_numpys_numbers_are_numbers(encoder, gallery, batches, tmp_path):
    session = Session(
        encoder, gallery, REST(lr=np.float32(0.01), neighbours=np.int64(5)), steps=np.int32(2)
    )
    session.answer(batches[0])
    session.save(tmp_path / "state")
    kept = Session.load(tmp_path / "state", encoder, gallery)
    assert kept.settings.steps == 2 and type(kept.method.neighbours) is int
    assert kept.method.lr == pytest.approx(0.01)
