"""Sentence-level corruptions by models: tiny random ones, saved to disk, no network."""

import json
import sys

import pytest
from photo_captions import WRITTEN

from queryshift.errors import BadFile, BadInput, MissingExtra
from queryshift.lab.corruptions import generator, text

CAPTION = "A man riding a wave."
SPECIAL = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}


def save_tokenizer(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=list(SPECIAL.values()))
    tokenizer.train_from_iterator(WRITTEN, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL).save_pretrained(folder)


@pytest.fixture(scope="module")
def style_model(tmp_path_factory):
    from torch import manual_seed
    from transformers import T5Config, T5ForConditionalGeneration

    folder = tmp_path_factory.mktemp("style")
    save_tokenizer(folder)
    manual_seed(0)
    sizes = {"vocab_size": 300, "d_model": 16, "d_kv": 8, "d_ff": 16}
    config = T5Config(**sizes, num_layers=1, num_heads=2, decoder_start_token_id=0)
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return str(folder)


def save_judge(folder, opinion):
    """A model that finds every candidate adequate (opinion > 0) or none."""
    from torch import nn, tensor
    from transformers import BertConfig, BertForSequenceClassification

    save_tokenizer(folder)
    sizes = {"vocab_size": 300, "hidden_size": 16, "intermediate_size": 16}
    judge = BertForSequenceClassification(
        BertConfig(**sizes, num_hidden_layers=1, num_attention_heads=2)
    )
    nn.init.zeros_(judge.classifier.weight)
    judge.classifier.bias.data = tensor([0.0, opinion])
    judge.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    pytest.importorskip("sacremoses")
    from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
    from torch import manual_seed
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    folder = tmp_path_factory.mktemp("translator")
    piece_model, vocabulary = folder / "pieces.model", folder / "pieces.json"
    SentencePieceTrainer.train(
        sentence_iterator=iter(WRITTEN),
        model_prefix=str(folder / "pieces"),
        vocab_size=120,
        minloglevel=5,
    )
    pieces = SentencePieceProcessor(model_file=str(piece_model))
    names = [pieces.id_to_piece(index) for index in range(pieces.get_piece_size())]
    ids = {name: index for index, name in enumerate([*names, "<pad>"])}
    vocabulary.write_text(json.dumps(ids))
    tokenizer = MarianTokenizer(str(piece_model), str(piece_model), str(vocabulary))
    tokenizer.save_pretrained(folder)
    manual_seed(0)
    layers = {"encoder_layers": 1, "decoder_layers": 1}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = MarianConfig(
        **layers,
        **heads,
        vocab_size=len(ids),
        d_model=16,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        pad_token_id=ids["<pad>"],
        eos_token_id=ids["</s>"],
        decoder_start_token_id=ids["<pad>"],
        forced_eos_token_id=ids["</s>"],
    )
    model = MarianMTModel(config)
    model.final_logits_bias[0, ids["</s>"]] = 0.3  # so that it comes to an end
    model.save_pretrained(folder)
    return str(folder)


def drawn(corruption, seed=0, caption=CAPTION):
    return corruption(caption, 5, generator(seed, 1, "models", 5))


def test_a_style_model_writes_a_sentence_drawn_from_the_generator_alone(style_model):
    import torch

    passive = text.sentence("passive", "models", (style_model,))
    state = torch.get_rng_state()
    first = drawn(passive)
    assert first and first != CAPTION
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    assert drawn(passive) == first
    assert drawn(passive, seed=1) != first


def test_without_an_adequate_candidate_the_caption_stays(style_model, tmp_path):
    strict, lenient = (
        save_judge(tmp_path / name, opinion) for name, opinion in (("strict", -9.0), ("kind", 9.0))
    )
    assert drawn(text.sentence("formal", "models", (style_model, strict))) == CAPTION
    assert drawn(text.sentence("casual", "models", (style_model, lenient))) != CAPTION


def test_back_translation_goes_through_both_models_and_is_not_random(translator):
    corruption = text.sentence("backtranslation", "models", (translator, translator))
    assert corruption.__name__ == "backtranslation"
    first = drawn(corruption)
    assert first != CAPTION
    assert drawn(corruption, seed=1) == first


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_caption_reaches_no_model(blank):
    for name in ("formal", "passive", "backtranslation"):
        assert drawn(text.sentence(name, "models"), caption=blank) == blank


def test_names_are_those_of_the_rules():
    names = [corruption.__name__ for corruption in text.FAMILIES["sentence"]]
    assert [text.sentence(name, "models").__name__ for name in names] == names


def test_a_wrong_number_of_models_is_refused():
    with pytest.raises(BadInput, match="backtranslation takes 0 or 2 models; got 1"):
        text.sentence("backtranslation", "models", ("here",))
    with pytest.raises(BadInput, match="passive takes 0 or 1 models; got 2"):
        text.sentence("passive", "models", ("a", "b"))


def test_a_directory_without_a_model_is_named(tmp_path):
    with pytest.raises(BadFile, match="no model could be loaded from"):
        drawn(text.sentence("active", "models", (str(tmp_path),)))


def test_without_transformers_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"queryshift\[hf\]"):
        drawn(text.sentence("formal", "models", (str(tmp_path / "nowhere"),)))
