"""Files of galleries and sessions with any bytes changed: refused, or the same content."""

import copy
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from fuzzing import attempt, fuzzed, refused
from hostile_values import JSON
from hypothesis import strategies as st
from small_sessions import encoder, gallery, session

from miniature import same
from queryshift import Gallery, Session
from queryshift.errors import BadFile
from queryshift.support.tensor_files import read, write

KINDS = st.sampled_from(("gallery", "session"))
PLACES = st.floats(0, 1, exclude_max=True)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("flip"), PLACES, st.integers(0, 7)),
        st.tuples(st.just("cut"), PLACES, st.integers(0, 64)),
        st.tuples(st.just("put"), PLACES, st.binary(min_size=1, max_size=16)),
        st.tuples(st.just("copy"), PLACES, PLACES),
    ),
    min_size=1,
    max_size=3,
)


@cache
def whole(kind: str) -> bytes:
    """The bytes of a good file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kept"
        (gallery() if kind == "gallery" else session("rest", history=4)).save(path)
        return path.read_bytes()


def content(kind: str, path: Path) -> tuple:
    """What a file is loaded as."""
    if kind == "gallery":
        found = Gallery.load(path, mapped=False)
        return found.ids, found.vectors, found.fingerprint
    loaded = Session.load(path, encoder(), gallery())
    return loaded.state, loaded.history, loaded.settings, loaded.method, dict(loaded.origins)


@cache
def right(kind: str) -> tuple:
    with TemporaryDirectory() as folder:
        (Path(folder) / "kept").write_bytes(whole(kind))
        return content(kind, Path(folder) / "kept")


def changed(body: bytes, changes: list) -> bytes:
    """The bytes with bits flipped, parts cut out, put in or copied elsewhere."""
    for name, where, what in changes:
        place = int(where * len(body))
        if name == "flip":
            body = body[:place] + bytes([body[place] ^ 1 << what]) + body[place + 1 :]
        elif name == "cut":
            body = body[:place] + body[place + what :]
        elif name == "put":
            body = body[:place] + what + body[place:]
        else:
            start = int(what * len(body))
            body = body[:place] + body[start : start + 32] + body[place + 32 :]
        body = body or b"\0"
    return body


@fuzzed(share=4, kind=KINDS, changes=CHANGES)
def test_any_bytes(kind, changes, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(changed(whole(kind), changes))
    found = attempt(content, kind, path)
    assert isinstance(found, BadFile) or same(found, right(kind))


@fuzzed(share=2, kind=KINDS, body=st.binary(max_size=200))
def test_any_file_at_all(kind, body, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "foreign"
    path.write_bytes(body)
    assert isinstance(attempt(content, kind, path), BadFile)


def places_in(value, way=()) -> list[tuple]:
    """The way to every part of a description."""
    inner = value.items() if isinstance(value, dict) else ()
    found = []
    for key, part in enumerate(value) if isinstance(value, list) else inner:
        found += [(*way, key), *places_in(part, (*way, key))]
    return found


@fuzzed(data=st.data(), kind=KINDS, put=JSON, drop=st.booleans())
def test_any_description_with_a_right_checksum(data, kind, put, drop, tmp_path_factory):
    """Made by somebody else's program: what loads must answer."""
    path = tmp_path_factory.getbasetemp() / "described"
    path.write_bytes(whole(kind))
    tensors, about = read(path, kind, mapped=False)
    *way, last = data.draw(st.sampled_from(places_in(about)))
    inner = about = copy.deepcopy(about)
    for step in way:
        inner = inner[step]
    if drop and isinstance(inner, dict):
        del inner[last]
    else:
        inner[last] = put
    try:
        write(path, kind, tensors, json.loads(json.dumps(about)))
    except (UnicodeError, ValueError):
        return
    found = attempt(content, kind, path)
    assert isinstance(found, BadFile) or not refused(found)
    if kind == "session" and not refused(found):
        loaded = attempt(Session.load, path, encoder(), gallery())
        assert not refused(attempt(loaded.answer, list(torch.eye(4))))
