"""Sentence-level corruptions, and the two backends that can make them: rules and models."""

from __future__ import annotations

from collections.abc import Callable

from numpy.random import Generator

from queryshift.errors import BadInput, check_known

from ..corruption import Corruption, check_severity
from .caption_words import check_caption
from .style_rules import to_casual, to_formal
from .voice_rules import is_english, to_active, to_passive

BACKENDS = ("rules", "models")


def formal(caption: str, severity: int, rng: Generator) -> str:
    """A whole, written-out sentence with the longer words, by rule."""
    return _by_rule(caption, severity, to_formal)


def casual(caption: str, severity: int, rng: Generator) -> str:
    """A note in everyday words, by rule."""
    return _by_rule(caption, severity, to_casual)


def passive(caption: str, severity: int, rng: Generator) -> str:
    """Active voice to passive, by rule; unclear captions stay unchanged."""
    return _by_rule(caption, severity, to_passive)


def active(caption: str, severity: int, rng: Generator) -> str:
    """Passive voice to active, by rule; most captions are active already."""
    return _by_rule(caption, severity, to_active)


def backtranslation(caption: str, severity: int, rng: Generator) -> str:
    """Translated and translated back: only models can, so this says which to ask for."""
    raise BadInput(
        "back-translation needs translation models, the rules cannot make it: use "
        'sentence("backtranslation", backend="models") of queryshift.lab.corruptions.text, with '
        'models=("facebook/wmt19-en-de", "facebook/wmt19-de-en") or two local directories; on the '
        "command line, `corrupt --backend models` or `run --translator THERE BACK`."
    )


def sentence(name: str, backend: str = "rules", models: tuple[str, ...] = ()) -> Corruption:
    """A sentence-level corruption made by a backend.

    `models` are names or local directories in place of the published models: one for a style
    (two with the model that ranks candidates for formal and casual), two for back-translation.
    """
    check_known("sentence-level corruption", name, _BY_RULE)
    check_known("backend", backend, BACKENDS)
    if backend == "models":
        from .sentence_models import published

        return published(name, models)
    if models:
        raise BadInput(f'got models {models!r} for the rules; say backend="models" to use them.')
    return _BY_RULE[name]


_BY_RULE: dict[str, Corruption] = {
    corruption.__name__: corruption
    for corruption in (formal, casual, passive, active, backtranslation)
}


def _by_rule(caption: str, severity: int, rule: Callable[[str], str]) -> str:
    """The published benchmark has one level of these, so the severity is checked and no more."""
    check_severity(severity)
    return rule(caption) if is_english(check_caption(caption)) else caption
