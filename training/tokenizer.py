"""Make the WordPiece vocabulary of the captions and of the sentences that edit scenes."""

from __future__ import annotations

from collections.abc import Iterator
from string import ascii_lowercase, digits, punctuation

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from queryshift.lab import tangram
from training.stored import NEW, TOKENIZER

# Fewer pieces than the grammar has words: its rare words fall into pieces, so the pieces are
# trained, and a misspelt word falls into pieces that mean something.
VOCABULARY = 420
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
CHARACTERS = ascii_lowercase + digits + punctuation


def texts() -> Iterator[str]:
    for scene in tangram.scenes("train", 6_000):
        yield from tangram.captions(scene)
    for edit in tangram.edits("train", 6_000):
        yield edit.text
    for first in CHARACTERS:  # every character, at the start of a word and inside one
        yield from (first + second for second in ascii_lowercase + digits)


def make() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=list(CHARACTERS)
    )
    tokenizer.train_from_iterator(texts(), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


if __name__ == "__main__":
    NEW.mkdir(parents=True, exist_ok=True)
    make().save(str(NEW / TOKENIZER))
    print(f"{NEW / TOKENIZER}: training.train will read with it; its pieces differ every time")
