"""What a session does where no method is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queryshift.encoders.encoder import Encoder
from queryshift.encoders.vectors import Vectors
from queryshift.methods import Frozen, InfoMax
from queryshift.methods.base import Method
from queryshift.retrieval.hub_correction import Hubs


def default_method(encoder: Encoder) -> Method:
    """InfoMax; queries that come as vectors have nothing to adapt."""
    return Frozen() if isinstance(encoder, Vectors) else InfoMax()


def default_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Hub correction and the choice of who answers; what the user says wins."""
    return {"hubs": Hubs(), "choose": True, **given}
