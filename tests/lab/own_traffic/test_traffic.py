"""Traffic as it is read: its encoder, its first queries, its shift, what is refused."""

import numpy as np
import pytest

from queryshift.errors import BadInput
from queryshift.lab.own_traffic.traffic import traffic

VECTORS = list(np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32))
TEXTS = ["a red square", "a blue arrow", "a green star"]


def test_a_model_has_its_name_and_vectors_are_called_vectors():
    assert traffic(None, VECTORS, VECTORS).model == "vectors"
    assert traffic("tangram", TEXTS, TEXTS).model == "tangram"


@pytest.mark.parametrize(("count", "left"), [(0, 0), (2, 2), (6, 6), (99, 6)])
def test_the_first_queries_keep_their_right_answers(count, left):
    whole = traffic(None, VECTORS, VECTORS, answers={row: [row] for row in range(6)})
    part = whole.first(count)
    assert list(part.queries.ids) == list(whole.queries.ids)[:left]
    assert [list(right) for right in part.matches] == [[row] for row in range(left)]
    assert len(part.candidates) == 6


@pytest.mark.parametrize(("asked", "severity"), [("ocr", 3), ("ocr:1", 1), ("ocr:5", 5)])
def test_a_shift_without_a_severity_has_the_middle_one(asked, severity):
    shift = traffic("tangram", TEXTS, TEXTS, shift=asked).shift
    assert shift is not None and (shift.name, shift.severity) == ("ocr", severity)


@pytest.mark.parametrize(
    ("model", "gallery", "said"),
    [
        (None, TEXTS, "the queries are text: name a model that encodes them, or give vectors"),
        (
            "tangram",
            VECTORS,
            "the queries are audio, the model encodes image, text: give such items",
        ),
    ],
)
def test_what_the_model_cannot_read_is_refused_with_what_it_can(model, gallery, said, tmp_path):
    queries = TEXTS
    if model is not None:
        queries = tmp_path
        (tmp_path / "sound.wav").write_bytes(b"RIFF")
    with pytest.raises(BadInput, match=said):
        traffic(model, gallery, queries)


def test_vectors_are_not_corrupted():
    with pytest.raises(BadInput, match='the shift "fog" for vectors, expected queries that can'):
        traffic(None, VECTORS, VECTORS, shift="fog")


def test_vectors_are_not_searched_among_texts():
    with pytest.raises(BadInput, match="the candidates text: give vectors of both"):
        traffic(None, TEXTS, VECTORS)
