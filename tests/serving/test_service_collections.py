"""Collections of one's own: files, vectors, methods that train nothing, several at once."""

import json
import time

import pytest
from queries_to_send import first_ids, png, query

import queryshift as qs
from queryshift.lab import tangram
from running_server import Server

TOML = """
[collections.words]
model = "tangram"
queries = "text"
gallery = "captions.gallery"
method = "frozen+hubs:bank=64"
reference = "yesterday.jsonl"
samples = "samples.jsonl"
gather = 4

[collections.numbers]
model = "vectors"
queries = "vector"
gallery = "captions.gallery"
method = "tcr_untrained"
mode = "live"
guard = false
gather = 4

[collections.images]
model = "tangram"
queries = "image"
gallery = "faiss:captions.faiss"
method = "tent+refined"
mode = "live"
gather = 4
ordinary = "images.jsonl"
"""


@pytest.fixture(scope="module")
def captions():
    return [tangram.captions(scene)[0] for scene in tangram.scenes("test", 48)]


@pytest.fixture(scope="module")
def own(tmp_path_factory, captions):
    folder = tmp_path_factory.mktemp("own")
    encoder = qs.load("tangram")["text"]
    ids = [f"caption {number}" for number in range(len(captions))]
    gallery = qs.Gallery.build(encoder, captions, ids)
    gallery.save(folder / "captions.gallery")
    save_faiss(gallery, folder / "captions.faiss")
    others = [tangram.captions(scene)[1] for scene in tangram.scenes("test", 48)]
    lines = [json.dumps({"text": text}) for text in others]
    (folder / "yesterday.jsonl").write_text("\n".join(lines))
    right = {"query": {"text": others[3]}, "right": [ids[3]]}
    (folder / "samples.jsonl").write_text(json.dumps(right))
    for number in range(6):
        (folder / f"{number}.png").write_bytes(png(number))
    lines = [json.dumps({"image_file": f"{number}.png"}) for number in range(6)]
    (folder / "images.jsonl").write_text("\n".join(lines))
    with Server(folder, TOML) as running:
        yield running


def save_faiss(gallery, path):
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatIP(gallery.dimension)
    index.add(gallery.vectors[:, 0].numpy())
    faiss.write_index(index, str(path))


def post(client, collection, body):
    answer = client.post(f"/v1/collections/{collection}/search", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def waited(client, collection, batches):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        told = client.get(f"/v1/collections/{collection}/tenants/default").json()
        if told["batches"] >= batches:
            return told
        time.sleep(0.05)
    raise AssertionError(told)


def test_texts_find_captions_by_their_own_ids_in_shadow(own):
    with own.client() as client:
        (sample,) = client.get("/v1/collections/words/samples").json()["samples"]
        told = post(client, "words", {"query": sample["query"], "k": 2})
        kept = client.get("/v1/collections/words/tenants/default/latest")
        shown = client.get("/v1/collections/words/candidates/caption 3").json()
    assert first_ids(told) == sample["right"] == ["caption 3"] and told["mode"] == "shadow"
    assert kept.status_code == 403 and shown == {"id": "caption 3"}


def test_a_method_that_trains_nothing_learns_from_vectors_encoded_once(own, captions):
    with own.client() as client:
        post(client, "words", {"queries": [{"text": text} for text in captions[:4]]})
        report = waited(client, "words", 1)
        about = client.get("/v1/collections/words").json()
    assert report["shift"]["shift_score"] is not None and about["reference"] == {"queries": 48}
    assert report["updates"] == 0 and about["hubs"] is True


def test_vectors_are_asked_as_they_are(own, captions):
    vectors = qs.load("tangram")["text"].encode(captions[:4]).tolist()
    with own.client() as client:
        told = post(client, "numbers", {"queries": [{"vector": one} for one in vectors]})
        report = waited(client, "numbers", 1)
        path = "/v1/collections/numbers/search"
        short = client.post(path, json={"query": {"vector": [1.0, 2.0]}})
    assert first_ids(told) == [f"caption {number}" for number in range(4)]
    assert report["method"] == "tcr_untrained" and report["guard"]["resets"] == 0
    assert short.status_code == 422 and "expected 128 numbers" in short.json()["detail"]


def test_an_engine_is_searched_and_adapted_over(own):
    queries = [query(number, 60) for number in range(4)]
    with own.client() as client:
        told = post(client, "images", {"queries": queries, "k": 5})
        report = waited(client, "images", 1)
        about = client.get("/v1/collections/images").json()
    assert [len(answer["hits"]) for answer in told["answers"]] == [5] * 4
    assert report["method"] == "tent+refined" and about["candidates"] == 48


def test_tenants_of_one_name_are_apart_in_every_collection(own):
    with own.client() as client:
        post(client, "words", {"query": {"text": "a red square"}, "tenant": "same"})
        missing = client.get("/v1/collections/numbers/tenants/same")
        listed = client.get("/v1/collections").json()["collections"]
    assert missing.status_code == 404
    assert [one["name"] for one in listed] == ["words", "numbers", "images"]
