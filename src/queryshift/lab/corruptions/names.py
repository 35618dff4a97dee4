"""The names of all corruptions; importing them loads no corruption code."""

from __future__ import annotations

import tomllib
from importlib.resources import files

_FILE = files("queryshift.lab.corruptions.data").joinpath("corruptions.toml")
TABLES = tomllib.loads(_FILE.read_text(encoding="utf-8"))
"""All tables of `data/corruptions.toml`."""

NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    modality: {category: tuple(names) for category, names in families.items()}
    for modality, families in TABLES["names"].items()
}
OURS: dict[str, list[str]] = TABLES["ours"]
MODALITIES = tuple(NAMES)
REPRESENTATIVE: dict[str, dict[str, str]] = TABLES["representative"]
COMBINATIONS = {modality: tuple(names) for modality, names in TABLES["combinations"].items()}


def by_category(modality: str) -> dict[str, tuple[str, ...]]:
    """All names of a modality: the paper's by its categories, then ours."""
    ours = OURS.get(modality)
    return NAMES[modality] | ({"ours": tuple(ours)} if ours else {})
