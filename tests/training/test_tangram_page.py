"""The recall on docs/tangram.md is what `training.measure` printed."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tangram.md").read_text(encoding="utf-8")
MEASURED = {
    name: value
    for block in re.findall(r"{.*?}", (ROOT / "training/logs/recall.txt").read_text(), re.S)
    for name, value in json.loads(block).items()
}
ROWS = {
    "image to text (any of five)": ("image->text",),
    "text to image": ("text->image",),
    "video to audio": ("video->audio",),
    "audio to video": ("audio->video",),
    "composed, reference among the candidates": ("image+text->image",),
    "crayon: image to text / text to image": ("crayon, image->text", "crayon, text->image"),
    "products: image to text / text to image": ("products, image->text", "products, text->image"),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_page_has_what_was_measured(row):
    shown = re.search(rf"^\| {re.escape(row)} \|.*\| (.*) \|$", PAGE, re.M)
    assert shown is not None
    assert shown[1] == " / ".join(f"{MEASURED[name]:.2f}" for name in ROWS[row])
