"""BERT in BLIP and BLIP-2: its uncased tokenizer with their added tokens, and its sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from queryshift.errors import BadInput
from queryshift.support.optional import need

from .checkpoints import Checkpoint

USUAL = "bert-base-uncased"
Source: TypeAlias = str | Path | None
_HEAD = 64  # features of an attention head, in every published size
_FILES = ("vocab.txt", "tokenizer.json")
_ADVICE = (
    f'Go online once to fetch "{USUAL}", put its vocab.txt beside the checkpoint, or give '
    "`tokenizer=` a directory that holds it."
)


def text_config(checkpoint: Checkpoint, prefix: str) -> dict[str, Any]:
    """Sizes of a BERT whose weights' names start with `prefix`."""
    words, width = checkpoint.shape(f"{prefix}embeddings.word_embeddings.weight")
    layer = f"{prefix}encoder.layer."
    return {
        "vocab_size": words,
        "hidden_size": width,
        "intermediate_size": checkpoint.shape(f"{layer}0.intermediate.dense.weight")[0],
        "num_hidden_layers": checkpoint.depth(layer),
        "num_attention_heads": width // _HEAD,
        "max_position_embeddings": checkpoint.shape(
            f"{prefix}embeddings.position_embeddings.weight"
        )[0],
    }


def tokenizer(checkpoint: Checkpoint, words: str, added: list[str], source: Source) -> Any:
    """The tokenizer for a checkpoint whose table of words is called `words`.

    Taken from `source`, a directory or a name on the Hugging Face Hub; without one, from files
    beside the checkpoint, else from the Hub. Nothing but a fitting number of words tells whether
    it was really found: transformers makes up a tokenizer where it finds no files.
    """
    near, rows = checkpoint.path.parent, checkpoint.shape(words)[0]
    beside = any((near / file).is_file() for file in _FILES)
    transformers = need("transformers", "hf", "reading texts as BERT does")
    wanted = str(source or (near if beside else USUAL))
    try:
        found = transformers.BertTokenizerFast.from_pretrained(wanted)
    except (OSError, ValueError) as error:
        raise BadInput(f'no tokenizer "{wanted}" ({error}). {_ADVICE}') from error
    found.add_tokens(added, special_tokens=True)
    if len(found) != rows:
        raise BadInput(
            f'the tokenizer "{wanted}" was not found, or is another\'s: it has {len(found)} '
            f"words, the checkpoint {checkpoint.path} has {rows}. {_ADVICE}"
        )
    return found
