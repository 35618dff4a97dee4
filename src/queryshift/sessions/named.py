"""What a session is made with when its method is given in words: "default", "frozen+hubs"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queryshift.encoders.encoder import Encoder
from queryshift.methods.base import Method
from queryshift.methods.specs import DEFAULT, Spec

from .policy import default_method, default_settings
from .settings import Settings


def named(
    text: str, encoder: Encoder, given: Mapping[str, Any] | None = None
) -> tuple[Method, dict[str, Any]]:
    """The method of a spec and the settings of its session.

    Args:
        text: a method in words; "default" is a session without a method.
        encoder: the encoder of the session.
        given: settings that win over those of the spec.

    Returns:
        What `Session(encoder, gallery, method, **settings)` takes.
    """
    spec = Spec.read(text)
    if spec.method.name == DEFAULT:
        return default_method(encoder), default_settings(given or {})
    usual = {"hubs": spec.hubs, "score_from": Settings().score_from}
    return spec.make(), {**usual, **(given or {})}
