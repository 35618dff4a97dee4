"""A caption taken apart into tokens, and put together again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from . import lexicon

_TOKEN = re.compile(r"[\w’']+(?:-[\w’']+)*|[^\w\s]")
_PLAIN = re.compile(r"[^\W\d_][^\W\d_'-]*(?:['-][^\W\d_]+)*|,")
_END = re.compile(r"\s*[.!]?\s*$")


@dataclass(frozen=True)
class Sentence:
    """The tokens of a caption without its full stop, as written and in lower case."""

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    end: str

    @classmethod
    def of(cls, caption: str) -> Sentence:
        """Take a caption apart."""
        stop = _END.search(caption)
        end = stop[0].rstrip() if stop else ""
        body = _END.sub("", caption)
        tokens = tuple(_TOKEN.findall(body))
        return cls(tokens, tuple(token.lower() for token in tokens), end)

    @property
    def uncapitalised(self) -> tuple[str, ...]:
        """The tokens as they stand inside a sentence; names keep their capital letter."""
        return (uncapitalised(self.tokens[0]), *self.tokens[1:])

    def before_aside(self) -> tuple[Sentence, tuple[str, ...]]:
        """The sentence up to ", while" or ", with", and what comes from there."""
        for place, (one, two) in enumerate(pairwise(self.words)):
            if one == "," and two in {"while", "as", "with", "whilst"}:
                kept = Sentence(self.tokens[:place], self.words[:place], self.end)
                return kept, self.tokens[place:]
        return self, ()

    def spoken(self, words: Sequence[str]) -> str:
        """Other words in place of this sentence's own, with its capital letter and full stop."""
        text = " ".join(words).replace(" ,", ",")
        if self.tokens[0][:1].isupper():
            text = text[:1].upper() + text[1:]
        return text + self.end

    def is_simple(self) -> bool:
        """Whether it is one run of English words without quotes, brackets or several sentences."""
        return len(self.words) > 2 and all(
            re.fullmatch(r"[a-z][a-z'-]*|,", word) for word in self.words
        )


def uncapitalised(text: str) -> str:
    """A text that began a sentence, as it stands inside one; names keep their capital letter."""
    first = text.split(" ")[0]
    if first.lower() in lexicon.PROPER or (len(first) > 1 and first.isupper()):
        return text
    return text[:1].lower() + text[1:]
