"""The page of collections that are asked with sounds, or with an image and a text together."""

import json
import re

import httpx
import pytest
import soundfile
from PIL import Image

import queryshift as qs
from queryshift.lab.tangram.clips import clips
from queryshift.lab.tangram.edits import candidates, edits
from running_server import Server

pytestmark = pytest.mark.browser

TOML = """
[collections.sounds]
model = "tangram-clips"
queries = "audio"
gallery = "clips.gallery"
samples = "sounds.jsonl"
gather = 4

[collections.edits]
model = "tangram-edits"
queries = "image+text"
gallery = "scenes.gallery"
mode = "live"
"""
COUNT = 24


@pytest.fixture(scope="module")
def kinds(chromium, tmp_path_factory):
    """A server of both, with files of the queries beside it."""
    folder = tmp_path_factory.mktemp("kinds")
    watched = clips("test", COUNT)
    model = qs.load("tangram-clips")
    names = [f"clip {number}" for number in range(COUNT)]
    qs.Gallery.build(model["video"], [clip.frames() for clip in watched], names).save(
        folder / "clips.gallery"
    )
    for number, clip in enumerate(watched):
        soundfile.write(folder / f"{number}.wav", clip.waveform(), 16_000)
    samples = [
        {"query": {"audio_file": f"{number}.wav"}, "right": [names[number]]} for number in range(8)
    ]
    (folder / "sounds.jsonl").write_text("\n".join(map(json.dumps, samples)))
    asked = edits("test", COUNT)
    scenes = candidates(asked)
    images = qs.load("tangram-edits")["image"]
    qs.Gallery.build(images, [scene.image() for scene in scenes]).save(folder / "scenes.gallery")
    Image.fromarray(asked[0].reference.image()).save(folder / "reference.png")
    (folder / "change.txt").write_text(asked[0].text)
    (folder / "target.txt").write_text(str(scenes.index(asked[0].target)))
    with Server(folder, TOML) as running:
        yield running


def found(page, side, name=""):
    """Wait until one side's answers are there, a candidate of this name among them."""
    page.wait_for_selector(
        f"#answers .{side} .hit span[title='{name}']" if name else f"#answers .{side} .hit"
    )


def test_sounds_are_played_asked_and_sent_many(opened, kinds):
    page = opened(f"{kinds.url}/?collection=sounds&tenant=ears")
    found(page, "source")
    assert "is an audio file" in page.inner_text("#takes")
    assert page.locator("#samples input").count() == 8
    assert page.locator("#corruption-fields").is_hidden()
    page.wait_for_function("() => document.querySelector('#preview audio').duration > 1")
    page.get_by_text("Sample 2").click(position={"x": 10, "y": 10})
    found(page, "source", "clip 1")
    page.set_input_files("#own-file", kinds.folder / "20.wav")
    found(page, "source", "clip 20")
    page.click("#many-send")
    page.get_by_text("8 of 8 sent").wait_for()
    assert "in the last 8 queries" in page.inner_text("#many-chart figcaption")
    tenant = httpx.get(f"{kinds.url}/v1/collections/sounds/tenants/ears", timeout=60).json()
    assert tenant["queries"] >= 8 and tenant["mode"] == "shadow"


def test_an_image_is_refused_where_sounds_are_asked(opened, kinds):
    page = opened(f"{kinds.url}/?collection=sounds&tenant=eyes")
    found(page, "source")
    page.set_input_files("#own-file", kinds.folder / "reference.png")
    page.wait_for_selector("#message.bad")
    assert "audio" in page.inner_text("#message")


def test_an_image_and_a_text_ask_together(opened, kinds):
    page = opened(f"{kinds.url}/?collection=edits&tenant=composed")
    page.get_by_text("is an image with a text").wait_for()
    page.fill("#own-text", (kinds.folder / "change.txt").read_text())
    page.click("#own-ask")
    page.wait_for_selector("#message.bad")  # the image is missing
    page.set_input_files("#own-file", kinds.folder / "reference.png")
    page.click("#own-ask")
    found(page, "adapted", (kinds.folder / "target.txt").read_text())
    assert page.locator("#preview img").count() == page.locator("#preview q").count() == 1


def test_before_its_first_query_a_tenant_has_a_mode_that_can_be_chosen(opened, kinds):
    page = opened(f"{kinds.url}/?collection=edits&tenant=nobody")
    page.get_by_text("No queries of “nobody” yet").wait_for()
    page.wait_for_selector("#modes [data-mode=live][aria-pressed=true]")
    assert page.is_disabled("#reset") and page.is_visible("#nothing-learnt")
    page.focus("#modes [data-mode=frozen]")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # confirms
    page.wait_for_selector("#modes [data-mode=frozen][aria-pressed=true]")
    told = httpx.get(f"{kinds.url}/v1/collections/edits/tenants/nobody", timeout=60).json()
    assert told["mode"] == "frozen" and told["queries"] == 0
    assert re.search("nothing is learned", page.inner_text("#mode-meaning"))
