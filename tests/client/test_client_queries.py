"""Queries as the client sends them, and when it sends a call again."""

import base64
import doctest
import io

import numpy as np
import pytest
import torch
from PIL import Image

from queryshift.client import core, queries, retries
from queryshift.client.core import failure
from queryshift.client.queries import encoded, encoded_all
from queryshift.client.retries import Retries
from queryshift.errors import BadInput, NotAllowed, ServiceBusy, ServiceLost, UnknownName


@pytest.mark.parametrize("module", [queries, retries, core])
def test_examples(module):
    tried = doctest.testmod(module)
    assert tried.attempted and not tried.failed


def test_an_image_comes_through_whatever_it_is_handed_over_as(tmp_path):
    image = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    path = tmp_path / "image.png"
    image.save(path)
    for query in (image, path, path.read_bytes(), {"image": path}):
        sent = encoded(query)
        assert list(sent) == ["image"]
        read = Image.open(io.BytesIO(base64.b64decode(sent["image"])))
        assert np.array_equal(np.asarray(read), np.asarray(image))


@pytest.mark.parametrize("start", [b"RIFF\x00\x00\x00\x00WAVE", b"fLaC", b"OggS", b"ID3"])
def test_a_sound_is_told_from_an_image(start):
    assert list(encoded(start + b"...")) == ["audio"]


def test_a_text_is_never_opened_as_a_path(tmp_path):
    path = tmp_path / "secret"
    path.write_text("secret")
    assert encoded(str(path)) == {"text": str(path)}


@pytest.mark.parametrize("make", [list, tuple, np.array, torch.tensor])
def test_vectors(make):
    assert encoded(make([0.5, -0.25])) == {"vector": [0.5, -0.25]}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ([0.5, float("nan")], "not finite"),
        ({"painting": b""}, 'no modality "painting"'),
        ({"image": 3}, "expected bytes"),
        (np.zeros((4, 4, 3)), "PIL.Image.fromarray"),
        (object(), "got object for a query"),
    ],
)
def test_what_cannot_be_a_query_is_refused(query, said):
    with pytest.raises(BadInput, match=said):
        encoded(query)


@pytest.mark.parametrize("query", ["text", b"bytes", {"text": "a"}, 3])
def test_a_query_outside_a_list_is_refused(query):
    with pytest.raises(BadInput, match="put it in a list"):
        encoded_all(query)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"cannot read .*absent\.png: No such file"):
        encoded(tmp_path / "absent.png")


def test_pauses_grow_and_end():
    policy = Retries(count=3, first=1.0, longest=3.0)
    pauses = [policy.pause(tries, 503) for tries in (1, 2, 3)]
    for pause, most in zip(pauses, (1, 2, 3), strict=True):
        assert most / 2 <= pause <= most
    assert policy.pause(4, 503) is None
    assert policy.pause(1, None, asked="9") == 3.0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 507, 200])
def test_what_another_try_would_not_change_is_not_sent_again(status):
    assert Retries().pause(1, status) is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((401, NotAllowed), (403, NotAllowed), (404, UnknownName), (429, ServiceBusy)),
        *((409, BadInput), (413, BadInput), (422, BadInput), (500, ServiceLost)),
        (507, ServiceLost),
    ],
)
def test_a_problem_is_an_error_in_the_services_words(status, kind):
    error = failure(status, {"detail": "so it is.", "request_id": "r1"})
    assert type(error) is kind and str(error) == "so it is."
    assert "request r1" in error.__notes__[0]
    assert str(status) in str(failure(status, None))
