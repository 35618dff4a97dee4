"""Queries as a request has them: of what kind, how large, how they are decoded and shown."""

import asyncio
import base64
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from queries_to_send import png

from queryshift import load
from queryshift.encoders.prepared import PreparedItem
from queryshift.encoders.vectors import Vectors
from queryshift.errors import BadInput
from queryshift.serving.answering import queries
from queryshift.serving.answering.queries import Decoder, decoded, raw_query, size_of
from queryshift.serving.answering.queues import WorkQueue
from queryshift.serving.answering.thumbnails import shown


def image_file(width: int, height: int, bytes_in_all: int = 0) -> bytes:
    """A PNG of this size, of so many bytes at least."""
    file = BytesIO()
    Image.new("RGB", (width, height), "red").save(file, "PNG")
    return file.getvalue().ljust(bytes_in_all, b"\0")


SMALL = image_file(256, 256)


@pytest.mark.parametrize(
    ("given", "modality", "raw"),
    [
        ({"text": "a"}, "text", "a"),
        ({"image": b"i", "text": None}, "image", b"i"),
        ({"image": "aQ=="}, "image", b"i"),  # as an operator's file has it
        ({"audio": "aQ=="}, "audio", b"i"),
        ({"vector": [0.5, 1.0]}, "vector", [0.5, 1.0]),
        ({"text": "a", "image": b"i"}, "image+text", (b"i", "a")),
    ],
)
def test_a_query_is_taken_as_its_collection_is_asked(given, modality, raw):
    assert raw_query(given, modality) == raw


@pytest.mark.parametrize(
    ("given", "modality", "told"),
    [
        ({"image": b"i"}, "text", "got a query of image, expected text"),
        ({"image": b"i"}, "image+text", "got a query of image, expected image and text"),
        ({"image": b"i", "text": "a"}, "image", "got a query of image and text, expected image"),
        ({"image": "aa !aa"}, "image", "image is no base64"),
        ({"audio": "a"}, "audio", "audio is no base64"),
    ],
)
def test_a_query_of_another_kind_is_refused(given, modality, told):
    with pytest.raises(BadInput, match=told):
        raw_query(given, modality)


def test_a_file_has_fewer_bytes_than_the_limit_also_in_base64(limited):
    limited(file_bytes=300)
    small, large = b"x" * 297, b"x" * 300
    for taken in (small, base64.b64encode(small).decode()):
        assert raw_query({"image": taken}, "image") == small
    for refused in (large, base64.b64encode(large).decode()):
        with pytest.raises(BadInput, match="got 300 bytes"):
            raw_query({"image": refused}, "image")


@pytest.mark.parametrize(
    ("raw", "size"), [("abc", 3), (b"abcd", 4), ([0.5] * 10, 80), ((b"abcd", "abc"), 7)]
)
def test_what_waits_takes_about_so_many_bytes(raw, size):
    assert size_of(raw) == size


def test_each_kind_of_query_is_decoded(monkeypatch):
    monkeypatch.setattr(queries, "read_audio", lambda raw: np.frombuffer(raw, np.uint8))
    assert decoded("a red square", "text") == "a red square"
    assert decoded([0.5, 1.0], "vector") == [0.5, 1.0]
    assert decoded(b"\x01\x02", "audio").tolist() == [1, 2]
    assert decoded(SMALL, "image").size == (256, 256)
    image, text = decoded((SMALL, "a red square"), "image+text")
    assert image.size == (256, 256) and text == "a red square"


def test_a_query_is_shown_as_a_small_image_or_as_the_beginning_of_its_text():
    def size(told: dict[str, Any]) -> tuple[int, int]:
        return Image.open(BytesIO(base64.b64decode(told["image"]))).size

    large, long = Image.new("RGB", (960, 480)), "abcdefghij" * 60
    assert size(shown(large, "image")) == (96, 48) and large.size == (960, 480)
    assert shown(long, "text") == {"text": long[:500]}
    both = shown((large, long), "image+text")
    assert size(both) == (96, 48) and both["text"] == long[:500]
    assert shown(np.zeros(8), "audio") == {"audio": None}


@pytest.mark.parametrize(
    ("modality", "given", "at_once"),
    [
        ("text", ["a", "b"], True),
        ("vector", [[0.5], [1.0]], True),
        ("image", [SMALL], True),
        ("image", [SMALL, SMALL], False),
        ("image", [image_file(300, 300)], False),
        ("image", [image_file(64, 64, 20_000)], False),
        ("image", [b"no image"], False),
        ("image+text", [(SMALL, "a")], False),
    ],
)
def test_a_small_query_is_decoded_at_once_and_files_beside_the_answers(modality, given, at_once):
    class Work:
        async def do(self, caller, pieces):
            callers.append(caller)
            return [piece() for piece in pieces]

    def small(image: Image.Image) -> Image.Image:
        return image.resize((224, 224))

    settings = SimpleNamespace(keep_queries=0)
    reader = SimpleNamespace(prepare_item=small)
    collection, callers = SimpleNamespace(modality=modality, reader=reader, settings=settings), []
    found = asyncio.run(Decoder(collection, Work()).decode("one", given))
    assert callers == [] if at_once else callers == ["one"]
    assert len(found) == len(given) and all(one.shown is None for one in found)
    for raw, one in zip(given, found, strict=True):
        if raw == b"no image":
            assert one.error is not None and one.item is None
        elif modality == "image":  # a large one is made small, as the encoder takes it
            size = Image.open(BytesIO(raw)).size
            assert one.error is None and one.item.size == ((224, 224) if size[0] > 256 else size)
        else:
            assert one.error is None


def test_large_images_with_texts_are_made_small_before_the_next_is_decoded():
    """256 files of 100 KB each can be 20 GB of pixels."""
    reader, settings = load("tangram-edits")["image+text"], SimpleNamespace(keep_queries=1)
    collection = SimpleNamespace(modality="image+text", reader=reader, settings=settings)
    work, file = WorkQueue("decoder", 1, 8, 8), image_file(400, 300)
    given = [(file, "red"), (SMALL, "add a green star"), (file, "move the square to the left")]

    async def decode():
        running = asyncio.create_task(work.run())
        found = await Decoder(collection, work).decode("one", given)
        running.cancel()
        return found

    found = asyncio.run(decode())
    assert [type(one.item) for one in found] == [PreparedItem, tuple, PreparedItem]
    assert all(one.shown is not None and list(one.shown) == ["image", "text"] for one in found)
    for items in ([one.item for one in found], [Decoder(collection, work).item(r) for r in given]):
        whole = reader.encode([decoded(raw, "image+text") for raw in given])
        assert torch.equal(reader.encode(items), whole)


def test_vectors_are_prepared_by_nobody():
    settings = SimpleNamespace(keep_queries=1)
    collection = SimpleNamespace(modality="vector", reader=Vectors(2), settings=settings)
    (found,) = asyncio.run(Decoder(collection, None).decode("one", [[0.5, 1.0]]))
    assert found.item == [0.5, 1.0] and found.shown == {"vector": None}
    settings.keep_queries, collection.modality = 1, "image"
    (found,) = asyncio.run(Decoder(collection, None).decode("one", [png(1)]))
    assert found.shown is not None and list(found.shown) == ["image"]
