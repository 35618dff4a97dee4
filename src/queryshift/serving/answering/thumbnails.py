"""Queries as the page of a service shows them: small images, the beginnings of texts."""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Any

THUMBNAIL = 96  # pixels of the longer side
SHOWN_CHARACTERS = 500


def shown(item: Any, modality: str) -> dict[str, Any]:
    """A decoded query as it is kept to be looked at: a small image, a text's beginning."""
    if isinstance(item, tuple):
        return shown(item[0], "image") | shown(item[1], "text")
    if isinstance(item, str):
        return {"text": item[:SHOWN_CHARACTERS]}
    if modality == "image":
        image = item.copy()
        image.thumbnail((THUMBNAIL, THUMBNAIL))
        return {"image": png(image)}
    return {modality: None}


def png(image: Any) -> str:
    """A PIL image as a PNG file in base64."""
    file = BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
