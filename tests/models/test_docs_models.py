"""docs/models.md names every model."""

from pathlib import Path

from queryshift.models import ARCHITECTURES, MODELS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_model_is_named():
    page = (DOCS / "models.md").read_text(encoding="utf-8")
    for name, source in MODELS.items():
        assert f"| `{name}` | {source} |" in page
    for architecture in ARCHITECTURES:
        assert f"`{architecture}`" in page
