"""The page before hostile text, a closed door, and a service that goes away."""

import hashlib

import pytest

import queryshift as qs
from queryshift.client import Client
from running_server import Server

pytestmark = pytest.mark.browser

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
TEXTS = """
[collections.texts]
model = "tangram"
queries = "text"
gallery = "{gallery}"
mode = "live"
keep_queries = 8
"""
CLOSED = """
[[tokens]]
name = "operator"
sha256 = "{digest}"
scopes = ["read", "adapt", "admin"]

[collections.tangram]
candidates = 64
mode = "live"
"""


@pytest.fixture(scope="module")
def hostile(chromium, tmp_path_factory):
    """A service whose candidates' ids are HTML."""
    folder = tmp_path_factory.mktemp("hostile")
    captions = [f"a red square and {number} stars" for number in range(24)]
    ids = [f"{HOSTILE}{number}" for number in range(24)]
    gallery = qs.Gallery.build(qs.load("tangram")["text"], captions, ids=ids)
    gallery.save(folder / "hostile.gallery")
    with Server(folder, TEXTS.format(gallery=folder / "hostile.gallery")) as running:
        yield running


def test_ids_and_queries_that_are_html_stay_text(opened, hostile):
    with Client(hostile.url, "texts") as client:
        client.search([HOSTILE] * 20)
    page = opened(hostile.url)
    page.fill("#own-text", HOSTILE)
    page.click("#own-ask")
    page.wait_for_selector("#answers .source .hit")
    page.wait_for_selector("#latest .latest q")
    assert HOSTILE in page.inner_text("#answers .source")
    assert HOSTILE in page.inner_text("#latest")
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("window.hacked === undefined")


def test_an_injected_script_is_stopped_by_the_policy(chromium, hostile):
    context = chromium.new_context()
    page = context.new_page()
    page.goto(hostile.url)
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            document.body.append(script);
        }"""
    )
    assert page.evaluate("window.hacked === undefined")
    context.close()


def test_a_token_is_asked_for_and_kept_until_the_tab_closes(opened, tmp_path):
    token = "a-token-for-this-test-only"
    digest = hashlib.sha256(token.encode()).hexdigest()
    with Server(tmp_path, CLOSED.format(digest=digest)) as running:
        page = opened(running.url)
        page.wait_for_selector("#token-form:not([hidden])")
        assert page.is_hidden("#main")
        assert page.evaluate("document.activeElement.id") == "token"
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#message.bad")
        page.fill("#token", token)
        page.keyboard.press("Enter")
        page.wait_for_selector("#answers .source .hit")
        assert page.is_hidden("#token-form")
        page.reload()
        page.wait_for_selector("#answers .source .hit")


def test_a_service_that_goes_away_is_told_and_found_again(opened, tmp_path):
    with Server(tmp_path, "[collections.tangram]\ncandidates = 64\n") as running:
        page = opened(running.url)
        page.wait_for_selector("#answers .source .hit")
        running.kill()
        page.wait_for_selector("#message.bad")
        assert "does not answer" in page.inner_text("#message")
        running.start()
        page.wait_for_selector("#message:not(.bad)")
