"""Where a gallery's vectors come from: kept beside them, compared when a session uses them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

MARK = "queryshift: "  # begins the line of a comment that holds an origin


@dataclass(frozen=True)
class ModelOrigin:
    """The model that made a gallery's vectors.

    Args:
        model: Its name.
        modality: That of the candidates, whose encoder made the vectors.
        encoders: The fingerprint of each of its encoders by modality: queries come from one of
            them.

    Examples:
        >>> ModelOrigin("tangram", "image", {"image": "ab12", "text": "cd34"}).fingerprint
        'ab12'
    """

    KEY: ClassVar[str] = "queryshift.origin"
    """What engines that keep named values know it by."""

    model: str
    modality: str
    encoders: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        """Of the encoder that made the vectors."""
        return self.encoders[self.modality]

    def as_text(self) -> str:
        """One line of JSON, for an engine to keep."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str | bytes | None) -> Self | None:
        """What `as_text` wrote; None for anything else, which is somebody else's."""
        try:
            return cls.from_values(json.loads(text or ""))
        except ValueError:
            return None

    @classmethod
    def from_values(cls, values: Any) -> Self | None:
        """The origin in named values, or None where they are no origin."""
        try:
            encoders = {str(name): str(print_) for name, print_ in values["encoders"].items()}
            origin = cls(str(values["model"]), str(values["modality"]), encoders)
        except (TypeError, KeyError, AttributeError):
            return None
        return origin if origin.modality in encoders else None

    def in_comment(self, comment: str) -> str:
        """A comment with this origin as its last line; what else it says stays."""
        lines = [line for line in comment.splitlines() if not line.startswith(MARK)]
        return "\n".join([*lines, f"{MARK}{self.as_text()}"])

    @classmethod
    def from_comment(cls, comment: str | None) -> Self | None:
        """The origin that `in_comment` added."""
        lines = (comment or "").splitlines()
        told = next((line for line in reversed(lines) if line.startswith(MARK)), "")
        return cls.from_text(told.removeprefix(MARK))
