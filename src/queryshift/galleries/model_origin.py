"""The model that made a gallery's vectors: stored with them, and compared by sessions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

MARK = "queryshift: "  # start of the comment line that holds an origin


@dataclass(frozen=True)
class ModelOrigin:
    """The model that made a gallery's vectors.

    Args:
        model: Its name.
        modality: The modality of the candidates.
        encoders: The fingerprint of each of its encoders, by modality.

    Examples:
        >>> ModelOrigin("tangram", "image", {"image": "ab12", "text": "cd34"}).fingerprint
        'ab12'
    """

    KEY: ClassVar[str] = "queryshift.origin"
    """The name under which engines with named values store it."""

    model: str
    modality: str
    encoders: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the encoder that made the vectors."""
        return self.encoders[self.modality]

    def as_text(self) -> str:
        """Return one line of JSON, for an engine to store."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str | bytes | None) -> Self | None:
        """Read what `as_text` wrote; None for any other text."""
        try:
            return cls.from_values(json.loads(text or ""))
        except ValueError:
            return None

    @classmethod
    def from_values(cls, values: Any) -> Self | None:
        """Read an origin from named values; None if they hold none."""
        try:
            encoders = {str(name): str(print_) for name, print_ in values["encoders"].items()}
            origin = cls(str(values["model"]), str(values["modality"]), encoders)
        except (TypeError, KeyError, AttributeError):
            return None
        return origin if origin.modality in encoders else None

    def in_comment(self, comment: str) -> str:
        """Return a comment with this origin as its last line; its other lines stay."""
        lines = [line for line in comment.splitlines() if not line.startswith(MARK)]
        return "\n".join([*lines, f"{MARK}{self.as_text()}"])

    @classmethod
    def from_comment(cls, comment: str | None) -> Self | None:
        """Read the origin that `in_comment` added."""
        lines = (comment or "").splitlines()
        told = next((line for line in reversed(lines) if line.startswith(MARK)), "")
        return cls.from_text(told.removeprefix(MARK))
