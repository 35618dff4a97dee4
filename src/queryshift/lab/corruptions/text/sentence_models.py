"""Sentence-level corruptions by the Hugging Face models that the published benchmark used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from numpy.random import Generator

from queryshift.errors import BadFile, BadInput, MissingExtra
from queryshift.support.optional import need

from ..corruption import Composite, Corruption, check_severity
from .caption_words import check_caption

WRITER, RANKER = "AutoModelForSeq2SeqLM", "AutoModelForSequenceClassification"
_LONGEST_TRANSLATION = 300


@dataclass(frozen=True)
class StyleTransfer:
    """One of Styleformer's styles: a T5 writes candidates, another model may rank them."""

    name: str
    task: str
    model: str
    adequacy: str | None = None
    candidates: int = 5
    least_adequacy: float = 0.95
    longest: int = 32

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, caption: str, severity: int, rng: Generator, /) -> str:
        """The most adequate candidate, or the caption itself where none is adequate enough."""
        check_severity(severity)
        if not check_caption(caption).strip():
            return caption
        written = self._write(caption, rng)
        if self.adequacy is None:
            return written[0] or caption
        scored = [(_adequacy(self.adequacy, caption, text), text) for text in written if text]
        best, text = max(scored, default=(0.0, caption))
        return text if best >= self.least_adequacy else caption

    def _write(self, caption: str, rng: Generator) -> list[str]:
        import torch

        tokenizer, model = _loaded(self.model, WRITER)
        tokens = tokenizer(f"transfer {self.task}: {caption}", return_tensors="pt")
        # Hugging Face samples from torch's global generator: seed it here and put it back.
        with torch.random.fork_rng(devices=[]), torch.inference_mode():
            torch.manual_seed(int(rng.integers(2**63)))
            written = model.generate(
                input_ids=tokens["input_ids"],
                attention_mask=tokens["attention_mask"],
                do_sample=True,
                top_k=50,
                top_p=0.95,
                max_length=self.longest,
                num_return_sequences=self.candidates if self.adequacy else 1,
            )
        return [text.strip() for text in tokenizer.batch_decode(written, skip_special_tokens=True)]


def _back_translated(there: str, back: str, caption: str, severity: int, rng: Generator) -> str:
    """The caption after both translations, or itself where nothing is left of it."""
    check_severity(severity)
    if not check_caption(caption).strip():
        return caption
    return _translated(back, _translated(there, caption)) or caption


_ADEQUACY = "prithivida/parrot_adequacy_model"
_STYLES = {
    name: StyleTransfer(name, task, f"prithivida/{model}_styletransfer", ranked_by)
    for name, task, model, ranked_by in (
        ("formal", "Casual to Formal", "informal_to_formal", _ADEQUACY),
        ("casual", "Formal to Casual", "formal_to_informal", _ADEQUACY),
        ("passive", "Active to Passive", "active_to_passive", None),
        ("active", "Passive to Active", "passive_to_active", None),
    )
}
_TRANSLATORS = ("facebook/wmt19-en-de", "facebook/wmt19-de-en")


def published(name: str, models: tuple[str, ...] = ()) -> Corruption:
    """The published corruption called `name`, with other models in place of its own if given."""
    if name == "backtranslation":
        _check_count(name, models, (0, 2))
        return Composite(name, _back_translated, models or _TRANSLATORS)
    style = _STYLES[name]
    _check_count(name, models, (0, 1, 2) if style.adequacy else (0, 1))
    if not models:
        return style
    return replace(style, model=models[0], adequacy=models[1] if len(models) > 1 else None)


def _check_count(name: str, models: tuple[str, ...], allowed: tuple[int, ...]) -> None:
    if len(models) not in allowed:
        counts = " or ".join(map(str, allowed))
        raise BadInput(f"{name} takes {counts} models; got {len(models)}: {models!r}.")


def _adequacy(place: str, caption: str, text: str) -> float:
    """Probability that `text` means the same as the caption."""
    import torch

    tokenizer, model = _loaded(place, RANKER)
    tokens = tokenizer(caption, text, return_tensors="pt", max_length=128, truncation=True)
    with torch.inference_mode():
        return float(model(**tokens).logits.softmax(dim=1)[0, 1])


def _translated(place: str, text: str) -> str:
    import torch

    tokenizer, model = _loaded(place, WRITER)
    tokens = tokenizer([text], return_tensors="pt", truncation=True)
    with torch.inference_mode():
        written = model.generate(
            input_ids=tokens["input_ids"],
            attention_mask=tokens["attention_mask"],
            max_length=_LONGEST_TRANSLATION,
        )
    translated: str = tokenizer.batch_decode(written, skip_special_tokens=True)[0]
    return translated.strip()


@cache
def _loaded(place: str, kind: str) -> tuple[Any, Any]:
    """Tokenizer and model from a local directory or, by name, from Hugging Face."""
    transformers = need("transformers", "hf", "a sentence-level corruption by models")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(place)
        model = getattr(transformers, kind).from_pretrained(place).eval()
    except ImportError as error:
        raise MissingExtra(
            f'the tokenizer of "{place}" needs another package: {error} '
            'pip install "queryshift[hf]" brings those of the published models.'
        ) from error
    except (OSError, ValueError) as error:
        raise BadFile(
            f'no model could be loaded from "{place}": {error} Give a local directory that '
            "`save_pretrained` wrote, or a Hugging Face name while there is a network."
        ) from error
    return tokenizer, model
