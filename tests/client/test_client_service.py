"""The client with a real service: every call, and retries that do not teach twice."""

import asyncio
import doctest
import hashlib
import io
import re
import time
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from dropping_proxy import dropping
from PIL import Image

from queryshift.client import AsyncClient, Client, async_client, sync_client
from queryshift.client.retries import Retries
from queryshift.errors import BadInput, NotAllowed, ServiceBusy, ServiceLost, UnknownName
from queryshift.lab import tangram
from queryshift.lab.corruptions import find
from running_server import Server

PAGE = Path(__file__).parents[2] / "docs" / "service-client.md"
BLOCKS = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.S)
TOKENS = {name: f"a-token-to-{name}" for name in ("read", "slow", "admin")}
SETTINGS = """
[collections.tangram]
candidates = 64
mode = "live"
method = "rest"
gather = 8
"""
CLOSED = SETTINGS + "".join(
    f"""
[[tokens]]
name = "{name}"
sha256 = "{hashlib.sha256(token.encode()).hexdigest()}"
scopes = {["read", "adapt", "admin"] if name == "admin" else ["read"]}
rate = {0.2 if name == "slow" else 1000}
burst = {1 if name == "slow" else 1000}
""".replace("'", '"')
    for name, token in TOKENS.items()
)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("served"), SETTINGS) as running:
        yield running


@pytest.fixture
def client(service):
    with Client(service.url, "tangram") as client:
        yield client


@pytest.fixture(scope="module")
def images():
    return [Image.fromarray(scene.image()) for scene in tangram.scenes("test", 8)]


def file_of(image):
    stream = io.BytesIO()
    image.save(stream, format="PNG")
    return stream.getvalue()


@pytest.fixture(scope="module")
def files(images):
    """The images as the bytes of their files."""
    return [file_of(image) for image in images]


@pytest.fixture(scope="module")
def noisy(images):
    """The same with much noise: queries that are not ordinary, and therefore learnt from."""
    noise, rng = find("image", "gaussian_noise"), np.random.default_rng(0)
    return [file_of(Image.fromarray(noise(np.asarray(one), 4, rng))) for one in images]


def wait_until(true):
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("module", [sync_client, async_client])
def test_the_examples_run(module, service, files):
    globs = vars(module) | {"url": service.url, "image": files[0]}
    tried = doctest.testmod(module, globs=globs)
    assert tried.attempted > 2 and not tried.failed


def test_the_blocks_of_the_docs_run(service, files, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("image.png").write_bytes(files[0])
    names: dict[str, object] = {"__name__": "page"}
    for code, shown in BLOCKS.findall(PAGE.read_text(encoding="utf-8")):
        exec(code.replace("http://127.0.0.1:8080", service.url), names)
        assert capsys.readouterr().out == shown


def test_the_collection(client):
    (only,) = client.collections()
    assert only == client.collection()
    assert (only.name, only.queries, only.candidates) == ("tangram", "image", 64)


def test_images_of_all_kinds_find_the_same(client, images, files, tmp_path):
    path = tmp_path / "image.png"
    path.write_bytes(files[0])
    found = client.search([images[0], files[0], path, {"image": path}], k=3, adapt=False)
    assert found.tenant == "default" and found.mode == "live"
    assert all(ids == found.ids[0] and ids[0] == 0 for ids in found.ids)
    assert found.answers[0].hits[0].score > found.answers[0].hits[2].score


def test_both_answers_where_they_are_asked_for(client, files):
    (answer,) = client.search(files[:1], k=2, adapt=False, compare=True, tenant="both").answers
    assert [hit.id for hit in answer.source] == [hit.id for hit in answer.adapted]
    (answer,) = client.search(files[:1], k=2, adapt=False, tenant="both").answers
    assert answer.adapted is None


def test_excluded_ids_are_not_found(client, files):
    found = client.search(files[:2], k=3, adapt=False, exclude=[[0], []])
    assert 0 not in found.ids[0] and found.ids[1][0] == 1


def test_a_bad_query_costs_the_others_nothing(client, files):
    good, bad = client.search([files[0], b"no image"], k=1, adapt=False).answers
    assert good.error is None and good.ids == [0]
    assert bad.ids == [] and "image" in bad.error


def test_a_tenant_is_followed_from_its_first_query_to_its_reset(client, noisy):
    client.search(noisy, tenant="carol")
    wait_until(lambda: client.tenant("carol").batches == 1)
    before = client.tenant("carol")
    assert (before.queries, before.updates, before.mode) == (8, 1, "live")
    assert before.shift is not None and before.shift["entropy"] > 0
    assert "carol" in {row.tenant for row in client.tenants()}
    (row,) = client.history("carol")
    assert row.batch == 1 and row.updated and isinstance(row.time, datetime)
    assert client.history("carol", since=1) == []
    kept = client.snapshot("kept", "carol")
    assert client.snapshots("carol") == [kept] and kept.batches == 1
    assert in_force(client.undo("carol")) == 0
    assert in_force(client.rollback("kept", "carol")) == in_force(before) > 0
    assert in_force(client.reset("carol")) == 0


def in_force(tenant):
    return tenant.report["updates_in_force"]


@pytest.mark.parametrize("mode", ["shadow", "frozen", "live"])
def test_modes(client, files, mode):
    client.search(files[:1], tenant=f"in-{mode}")
    assert client.set_mode(mode, f"in-{mode}").mode == mode
    assert client.search(files[:1], tenant=f"in-{mode}").mode == mode


def test_clicks_score_both_answers(client, files):
    client.search(files[:1], tenant="clicker")
    client.set_mode("shadow", "clicker")
    found = client.search(files[:2], tenant="clicker")
    means = client.feedback(found.request_id, {1: [found.ids[1][0]]}, tenant="clicker")
    assert (means.clicks, means.source) == (1, 1.0)
    assert client.tenant("clicker").clicks == means


def test_reference_queries_are_handed_over(client, files):
    assert client.set_reference(files) == 8


def test_errors_are_the_libraries_in_the_services_words(service, client, files):
    with pytest.raises(UnknownName, match="nobody"):
        client.tenant("nobody")
    with Client(service.url, "absent") as other, pytest.raises(UnknownName, match="absent"):
        other.collection()
    with pytest.raises(BadInput, match="mode"):
        client.set_mode("sideways", "default")
    with pytest.raises(BadInput) as reused:
        client.search(files[:1], key="one-key")
        client.search(files[1:2], key="one-key")
    assert "409" in reused.value.__notes__[0]


@pytest.mark.parametrize("drops", [1, 3])
def test_a_search_whose_answer_was_lost_teaches_once(service, client, noisy, drops):
    tenant = f"lost-{drops}"
    with (
        dropping(service.url, drops) as proxy,
        Client(proxy.url, "tangram", retries=Retries(4, first=0.01)) as unlucky,
    ):
        found = unlucky.search(noisy, tenant=tenant)
    assert proxy.left == 0 and proxy.answered > drops
    assert len(found.ids) == 8
    wait_until(lambda: client.tenant(tenant).batches >= 1)
    time.sleep(0.3)
    assert client.tenant(tenant).queries == 8 and client.tenant(tenant).updates == 1


def test_without_retries_it_would_be_lost(service, files):
    with (
        dropping(service.url, 1) as proxy,
        Client(proxy.url, "tangram", retries=0) as client,
        pytest.raises(ServiceLost),
    ):
        client.search(files[:1], adapt=False)


def test_coroutines_ask_at_once(service, files):
    async def ask():
        async with AsyncClient(service.url, "tangram") as client:
            asked = (client.search([file], k=1, adapt=False) for file in files)
            found = await asyncio.gather(*asked)
            await client.search(files, tenant="async")
            return found, await client.tenants(), await client.set_mode("frozen", "async")

    found, tenants, frozen = asyncio.run(ask())
    assert [result.ids[0][0] for result in found] == list(range(8))
    assert "async" in {row.tenant for row in tenants} and frozen.mode == "frozen"


def test_a_lost_answer_to_a_coroutine_teaches_once(service, client, noisy):
    async def ask(url):
        async with AsyncClient(url, "tangram", retries=Retries(4, first=0.01)) as unlucky:
            return await unlucky.search(noisy, tenant="lost-async")

    with dropping(service.url, 1) as proxy:
        asyncio.run(ask(proxy.url))
    wait_until(lambda: client.tenant("lost-async").batches >= 1)
    assert client.tenant("lost-async").queries == 8


def test_tokens_and_their_limits(tmp_path, files):
    with Server(tmp_path, CLOSED) as running:
        with Client(running.url, "tangram") as nobody, pytest.raises(NotAllowed, match="token"):
            nobody.tenants()
        with Client(running.url, "tangram", token=TOKENS["read"]) as reader:
            assert reader.search(files[:1], k=1, adapt=False).ids == [[0]]
            with pytest.raises(NotAllowed, match="adapt"):
                reader.search(files[:1])
        with Client(running.url, "tangram", token=TOKENS["slow"], retries=0) as hasty:
            hasty.collection()
            with pytest.raises(ServiceBusy):
                hasty.collection()
        with Client(running.url, "tangram", token=TOKENS["slow"]) as patient:
            started = time.monotonic()
            patient.collection()
            assert time.monotonic() - started > 1
        with Client(running.url, "tangram", token=TOKENS["admin"]) as admin:
            assert admin.search(files[:1], k=1).ids == [[0]]
