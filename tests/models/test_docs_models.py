"""docs/your-own-model.md runs, block after block; docs/models.md names every model."""

import re
from pathlib import Path

from queryshift.models import ARCHITECTURES, MODELS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "your-own-model.md"


def test_the_page_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 5
    names = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["found"].top(1).scores.shape == (4, 1)


def test_every_model_is_named():
    page = (DOCS / "models.md").read_text(encoding="utf-8")
    for name, source in MODELS.items():
        assert f"| `{name}` | {source} |" in page
    for architecture in ARCHITECTURES:
        assert f"`{architecture}`" in page
