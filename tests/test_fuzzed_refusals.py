"""What the fuzz tests found, each as a plain test: refused in a sentence."""

import gc
import io
import json
import sys

import pytest
import torch

from miniature import items
from queryshift import EATA, METHODS, REST, Gallery, Guard, Session, Vectors
from queryshift.errors import BadFile, BadInput, Error, MissingExtra, UnknownName
from queryshift.lab import corruptions
from queryshift.lab.evaluation.pages.page_items import parts
from queryshift.lab.evaluation.results import decode, encode
from queryshift.methods.eata import fisher_of
from tampering import rewritten

HUGE = 2**64


@pytest.fixture
def session(encoder, gallery, batches):
    made = Session(encoder, gallery, REST(), lr=0.01)
    made.answer(batches[0])
    return made


@pytest.mark.parametrize("missing", ["raise", "ignore"])
@pytest.mark.parametrize("strange", [[], 2.5, None, True, b"c1"])
def test_ids_to_leave_out_that_are_no_ids(session, missing, strange):
    with pytest.raises(BadInput, match="as an id to leave out, expected text or a whole number"):
        session.answer(items(1), exclude=[[strange]], missing=missing)


@pytest.mark.parametrize("strange", [torch.eye(3).to("meta"), torch.eye(3).to_sparse()])
def test_ids_to_leave_out_that_cannot_be_read(session, strange):
    before = session.state
    for exclude in ([strange], strange):
        with pytest.raises(BadInput, match="to leave out"):
            session.answer(items(1), exclude=exclude)
    assert session.state is before


@pytest.mark.parametrize("strange", [[], {}, 2.5])
def test_ids_to_remove_that_are_no_ids(gallery, strange):
    with pytest.raises(BadInput, match="no candidate has the id"):
        gallery.remove([strange])
    assert gallery.known([strange, "c1"]) == {"c1"}


def test_ids_that_are_rows_of_a_tensor():
    for ids in (torch.eye(2), torch.eye(2).to("meta")[0]):
        with pytest.raises(BadInput, match="got the id"):
            Gallery.from_vectors(ids, torch.eye(2))


@pytest.mark.parametrize("name", METHODS)
def test_whole_numbers_too_large_for_a_number(name):
    with pytest.raises(BadInput, match=f"temperature is {HUGE}, expected a number"):
        METHODS[name](temperature=HUGE)


@pytest.mark.parametrize("numbers", [(10**400, 0.0), [10**400], [[10**400]]])
def test_vectors_of_numbers_that_are_too_large(numbers):
    gallery = Gallery.from_vectors(["north", "east"], [[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(BadInput, match="expected 2 numbers"):
        Session(Vectors(2), gallery).answer([numbers])


def test_sounds_that_are_tensors_with_a_gradient():
    sound = torch.zeros(16, requires_grad=True)
    with pytest.raises(BadInput, match="cannot be read as an array"):
        corruptions.corrupt(
            sound, corruptions.find("audio", "gaussian_noise"), 1, seed=0, item_id=""
        )


def test_a_page_without_the_package_for_sounds(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(MissingExtra, match="writing audio needs the package"):
        parts("audio", [0.0])


@pytest.mark.parametrize("strange", ["x", 3, {"last.0.weight": "x"}])
def test_importance_that_was_not_computed(strange):
    with pytest.raises(BadInput, match="what fisher_of"):
        EATA(fisher=strange)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"decouple": torch.tensor([])}, "decouple is .*, expected true or false"),
        ({"decouple": torch.ones(2)}, "decouple is .*, expected true or false"),
        ({"queue_share": 4e307}, "expected a share between 0 and 1"),
        ({"queue_share": -0.1}, "expected a share between 0 and 1"),
    ],
    ids=repr,
)
def test_settings_of_rest_that_cannot_work(setting, expected):
    with pytest.raises(BadInput, match=expected):
        REST(**setting)


def test_gallery_vectors_of_numbers_that_are_too_large():
    with pytest.raises(BadInput, match="make no tensor"):
        Gallery.from_vectors(["a"], [[10**400, 0j]])


def test_importance_of_another_shape(encoder, gallery, batches):
    found = fisher_of(encoder, gallery, batches[0])
    method = EATA(fisher={name: value[:1] for name, value in found.items()}, redundancy=0.9)
    session = Session(encoder, gallery, method)
    with pytest.raises(BadInput, match="fisher has no importance of"):
        session.answer(batches[0])
    assert session.state.batches == 0


@pytest.mark.parametrize("make", [lambda: Guard(spread=HUGE), lambda: Guard(spread=10**400)])
def test_large_numbers_of_guards(make):
    with pytest.raises(BadInput, match="expected a number"):
        make()


@pytest.mark.parametrize("state", [None, [], torch.eye(2)])
def test_what_is_no_state_is_not_restored(session, state):
    before = session.state
    with pytest.raises(BadInput, match=r"as state, expected a value of session\.state"):
        session.restore(state)
    assert session.state is before


@pytest.mark.parametrize("other", [None, [[1.0] * 8], Gallery])
def test_what_is_no_gallery_does_not_take_ones_place(session, gallery, other):
    with pytest.raises(BadInput, match="as gallery, expected an array"):
        session.gallery = other
    assert session.gallery is gallery


def test_what_is_no_encoder_builds_no_gallery(gallery):
    with pytest.raises(BadInput, match="got a NoneType as encoder, expected an Encoder"):
        Gallery.build(None, items(2))
    with pytest.raises(BadInput, match="got a whole model as encoder"):
        gallery.add({"image": None}, items(1), ids=["new"])


@pytest.mark.parametrize("size", [None, "64", 0, 2.5])
def test_batch_sizes_of_a_build(encoder, size):
    with pytest.raises(BadInput, match=r"batch_size is .*, expected a whole number of at least 1"):
        Gallery.build(encoder, items(2), batch_size=size)


@pytest.mark.parametrize(
    ("queries", "exclude", "told"),
    [
        (None, None, "got a NoneType as query vectors"),
        ([[1.0] * 8], None, "got a list as query vectors"),
        (torch.eye(8).to("meta"), None, r"on meta, as query vectors"),
        (torch.eye(8).to_sparse(), None, r"sparse_coo on cpu, as query vectors"),
        (torch.eye(8).to(torch.complex64), None, "expected floating-point ones"),
        (torch.eye(8), [[0, 1]], "got a list as pairs to leave out"),
        (torch.eye(8), torch.zeros(2, 3, dtype=torch.long), r"expected whole numbers \(pairs, 2\)"),
    ],
)
def test_searches_for_what_is_no_table_of_vectors(gallery, queries, exclude, told):
    with pytest.raises(BadInput, match=told):
        gallery.search(queries, 3, exclude)


@pytest.mark.parametrize("count", [0, [], None, 2.5])
def test_centroids_of_no_count(gallery, count):
    with pytest.raises(BadInput, match="centroids, expected a whole number of at least 1"):
        gallery.centroids(count)


@pytest.mark.parametrize("device", ["nowhere", None, "cpu:x"])
def test_devices_that_are_not_there(gallery, device):
    if device is None:
        assert gallery.to(device).vectors.device.type == "cpu"
        return
    with pytest.raises(BadInput, match="as device, which is not available here"):
        gallery.to(device)


@pytest.mark.parametrize("strange", [[], {}, None])
def test_names_of_corruptions_that_are_no_text(strange):
    for call in (corruptions.families, lambda name: corruptions.find("image", name)):
        with pytest.raises(UnknownName):
            call(strange)
    with pytest.raises(UnknownName):
        corruptions.combination(strange, "noise+blur")


def test_result_lines_whose_parts_are_of_another_kind():
    import numpy as np

    from queryshift.lab.evaluation.results import Cell

    line = encode(
        Cell(
            benchmark="b",
            shift="fog",
            severity=5,
            protocol="online",
            method="rest",
            seed=0,
            ranks=np.array([1, 2]),
            candidates=2,
        )
    )
    assert decode(line).benchmark == "b"
    strange = {"benchmark": [], "shift": None, "versions": None, "settings": [], "seed": "0"}
    strange |= {"candidates": 2.5, "seconds": "1", "label": {}, "groups": {"a": 1.0, "b": 1}}
    for name, value in strange.items():
        with pytest.raises(BadFile, match="not a finished cell \\(its "):
            decode(json.dumps({**json.loads(line), name: value}))


@pytest.mark.parametrize("body", [b"", b"\x93NUMPY", b"{}"])
def test_files_of_vectors_that_hold_none(body, tmp_path):
    from queryshift.media.item_collection import as_collection

    (tmp_path / "asked.npy").write_bytes(body)
    with pytest.raises(BadFile, match="cannot be read as vectors"):
        as_collection(tmp_path / "asked.npy")


def test_a_session_file_without_a_history_of_any_kind(session, encoder, gallery, tmp_path):
    session.save(tmp_path / "kept")
    rewritten(tmp_path / "kept", "session", lambda about, tensors: about.pop("history"))
    with pytest.raises(BadFile, match="lacks a part of a session"):
        Session.load(tmp_path / "kept", encoder, gallery)


@pytest.mark.parametrize("strange", [torch.tensor([]), torch.ones(2), "no", None])
def test_adapt_is_true_or_false(session, strange):
    before = session.state
    with pytest.raises(BadInput, match=r"adapt is .*, expected true or false"):
        session.answer(items(2), adapt=strange)
    assert session.state is before


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("short.csv", "id,text\n1,a,b\n2,c\n"),
        ("quoted.tsv", 'id\ttext\n1\t"a"b\n2\tc\n'),
        ("lines.jsonl", '{"text": "a"}\n{]\n{"text": "c"}\n'),
        ("empty.csv", "id,text\n1,\n2,c\n"),
        ("bytes.csv", b"id,text\n1,a\n2,\xff\n3,c\n"),
    ],
    ids=["short", "quoted", "lines", "empty", "bytes"],
)
def test_a_table_that_is_refused_is_closed(name, body, tmp_path):
    from queryshift.media.item_collection import as_collection

    path = tmp_path / name
    path.write_bytes(body if isinstance(body, bytes) else body.encode())
    with pytest.raises(BadFile) as told:
        as_collection(path)
    still_open = [
        one
        for one in gc.get_objects()
        if type(one) is io.TextIOWrapper and not one.closed and one.name == str(path)
    ]
    assert told.value and not still_open


@pytest.mark.parametrize("path", ["x" * 300, f"{'x' * 300}/rows.csv", "~no such user/rows.csv"])
def test_paths_that_no_system_has(path):
    from queryshift import evaluate, load
    from queryshift.lab.evaluation.results import read_folder
    from queryshift.media.item_collection import as_collection

    for call in (as_collection, load, Gallery.load, Gallery.open, read_folder):
        with pytest.raises(Error, match=r"xxx|no such user"):
            call(path)
    with pytest.raises(BadInput, match="there is no file"):
        evaluate(None, {"a": torch.ones(2)}, {"b": torch.ones(2)}, matches=path)


def test_a_table_of_files_whose_names_are_too_long(tmp_path):
    from queryshift.media.item_collection import as_collection

    (tmp_path / "rows.csv").write_text(f"id,path\n1,{'x' * 300}.png\n")
    with pytest.raises(BadFile, match="line 2: there is no file"):
        as_collection(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"vector": [10**400]}, "as the vector, expected a list of numbers"),
        ({"text": "a", "time": 10**400}, "time stamp 1000.*, expected seconds"),
        ({"text": "a", "time": float("nan")}, "time stamp nan, expected seconds"),
    ],
)
def test_numbers_in_a_table_that_are_none(row, told, tmp_path):
    from queryshift.media.item_collection import as_collection

    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    with pytest.raises(BadFile, match=f"line 1: got .*{told}"):
        as_collection(tmp_path / "rows.jsonl")
