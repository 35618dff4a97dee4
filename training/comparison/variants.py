"""Variants of the default session, by name: the settings and constants that they change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import fields
from importlib import import_module
from typing import Any
from unittest.mock import patch

from queryshift import Gallery, Guard, Hubs, InfoMax, Session
from queryshift.encoders.encoder import Encoder

from . import without_rules


@contextmanager
def session_of(variant: str, encoder: Encoder, gallery: Gallery, **given: Any) -> Iterator[Session]:
    """A fresh session of a variant, whose patches hold until the end of the block.

    Args:
        variant: Its name.
        encoder: The encoder of the queries.
        gallery: The candidates.
        given: Settings of the session; those of the variant win.
    """
    with ExitStack() as stack:
        settings, patches = changed(variant)
        for one in patches:
            stack.enter_context(one)
        if not settings.pop("recommended", True):
            stack.enter_context(patch.object(encoder, "recommended", {}))
        factor = settings.pop("rate", None)
        if factor is not None:
            settings["lr"] = factor * encoder.recommended["infomax"]["lr"]
        yield Session(encoder, gallery, **{**given, **settings})


def changed(variant: str) -> tuple[dict[str, Any], list[AbstractContextManager[Any]]]:
    """Settings of a session that a variant names, and patches of the policy's constants."""
    if variant == "default":
        return {}, []
    if variant in without_rules.PATCHES:
        return {}, list(without_rules.patches(variant))
    variant = without_rules.SETTINGS.get(variant, variant)
    pairs = dict(one.split("=") for one in variant.split(","))
    parts: dict[type, dict[str, Any]] = {Guard: {}, InfoMax: {}, Hubs: {}}
    settings: dict[str, Any] = {}
    patches: list[AbstractContextManager[Any]] = []
    for name, text in pairs.items():
        value = json.loads(text)
        owner = next((one for one in parts if name in {f.name for f in fields(one)}), None)
        if owner is not None:
            parts[owner][name] = value
        elif ":" in name:  # module:CONSTANT
            module, constant = name.split(":")
            patches.append(patch.object(import_module(f"queryshift.{module}"), constant, value))
        elif name == "rate":  # times the encoder's
            settings["rate"] = value
        else:
            settings[name] = value
    made = {"method": InfoMax(**parts[InfoMax]), "guard": Guard(**parts[Guard])}
    return {"score_from": "after", "hubs": Hubs(**parts[Hubs]), **made, **settings}, patches
