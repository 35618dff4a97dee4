"""Tangram's matching head as a matcher, for image queries and for text queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from torch import Tensor
from torch.nn.functional import pad

from queryshift.encoders.encoder import Encoder
from queryshift.encoders.matcher import Matcher

from .model import fill, text_ids, vocabulary
from .towers import LONGEST_TEXT, PADDING, MatchingHead


class _TangramMatcher(Matcher):
    """What both directions share; the head reads sentences, looking at images' tokens."""

    rerank = 16

    def __init__(self, model: Mapping[str, Encoder]) -> None:
        super().__init__()
        self.head = MatchingHead(vocabulary())
        fill({"head": self.head}, "tangram-matching")
        self.to(model["text"].device)


class CaptionMatcher(_TangramMatcher):
    """For images that look for sentences."""

    def keep(self, items: Sequence[str]) -> dict[str, Tensor]:
        """The sentences' ids, all of one length."""
        ids = text_ids(items)
        return {"ids": pad(ids, (0, LONGEST_TEXT - ids.shape[1]), value=PADDING)}

    def forward(self, readings: Mapping[str, Tensor], candidates: Mapping[str, Tensor]) -> Tensor:
        """Logits of each image with its candidates."""
        tokens, ids = readings["tokens"], candidates["ids"]
        longest = int((ids != PADDING).sum(1).max())
        each = tokens.repeat_interleave(len(ids) // len(tokens), dim=0)
        logits: Tensor = self.head(each, ids[:, :longest])
        return logits


class ImageMatcher(_TangramMatcher):
    """For sentences that look for images."""

    def __init__(self, model: Mapping[str, Encoder]) -> None:
        super().__init__(model)
        self.image = model["image"]
        self.norm_names = [name for name, _ in self.named_modules() if name.startswith("head.")]

    def keep(self, items: Sequence[Any]) -> dict[str, Tensor]:
        """The images' tokens."""
        _, readings = self.image.through_for_matcher({}, self.image.ready(items))
        return cast(dict[str, Tensor], readings)

    def forward(self, readings: Mapping[str, Tensor], candidates: Mapping[str, Tensor]) -> Tensor:
        """Logits of each sentence with its candidates."""
        tokens, ids = candidates["tokens"], readings["ids"]
        logits: Tensor = self.head(tokens, ids.repeat_interleave(len(tokens) // len(ids), dim=0))
        return logits


MATCHERS = {"image": CaptionMatcher, "text": ImageMatcher}
"""Modality of the query to its matcher."""
