"""Tiny random checkpoints in the real format, one for each class that can be loaded."""

from pathlib import Path

import torch
import transformers as tf
from three_items import SENTENCES

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SMALL = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
}
VISION = {**SMALL, "image_size": 32, "patch_size": 8}
FIVE = int(tf.__version__.split(".")[0]) >= 5


def _bert_tokenizer(folder: Path, cls="BertTokenizer", extra=()):
    """One piece per letter, so that every sentence can be written."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *extra]
    words += [*LETTERS, *(f"##{letter}" for letter in LETTERS)]
    file = folder / "vocab.txt"
    file.write_text("\n".join(words))
    given = {"vocab": str(file)} if FIVE else {"vocab_file": str(file)}
    return getattr(tf, cls)(**given), len(words)


def _clip_tokenizer(folder: Path):
    """Every byte, alone or ending a word."""
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    pieces = [*letters, *(f"{letter}</w>" for letter in letters)]
    pieces += ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    if FIVE:
        return tf.CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=40), vocabulary
    import json

    (folder / "v.json").write_text(json.dumps(vocabulary))
    (folder / "m.txt").write_text("#version: 0.2\n")
    files = str(folder / "v.json"), str(folder / "m.txt")
    return tf.CLIPTokenizerFast(*files, model_max_length=40), vocabulary


def _piece_tokenizer(folder: Path):
    import sentencepiece

    prefix = folder / "pieces"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*SENTENCES, LETTERS, " ".join(LETTERS)] * 4),
        model_prefix=str(prefix),
        vocab_size=40,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return tf.SiglipTokenizer(f"{prefix}.model", model_max_length=24)


def _fast_tokenizer(pad: int):
    """A tokenizer of words for RoBERTa-shaped towers, whose padding id is 1."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["<s>", "<pad>", "</s>", "<unk>", *sorted(set(" ".join(SENTENCES).split()))]
    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    assert words[pad] == "<pad>"
    return tf.PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", unk_token="<unk>")


def _images(cls: str, **options):
    name = f"{cls}Pil" if FIVE else cls
    square = {"height": 32, "width": 32}
    return getattr(tf, name)(**{"size": square, "crop_size": square, **options})


def _save(folder: Path, model, *processors) -> Path:
    _spread(model)
    for part in (model, *processors):
        part.save_pretrained(folder)
    return folder


def _spread(model) -> None:
    """Random weights whose vectors differ: fresh norm layers are all ones, fresh biases zeros."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            is_norm = weight.ndim == 1 and name.endswith("weight")
            weight.copy_(1 + 0.1 * noise if is_norm else 0.15 * noise)


def clip(folder: Path) -> Path:
    tokenizer, vocabulary = _clip_tokenizer(folder)
    end = vocabulary["<|endoftext|>"]
    text = {**SMALL, "vocab_size": len(vocabulary), "max_position_embeddings": 40}
    ends = {"eos_token_id": end, "bos_token_id": end - 1, "pad_token_id": end}
    config = tf.CLIPConfig(text_config={**text, **ends}, vision_config=VISION, projection_dim=12)
    images = _images("CLIPImageProcessor", size={"shortest_edge": 32})
    return _save(folder, tf.CLIPModel(config), tokenizer, images)


def altclip(folder: Path) -> Path:
    tokenizer = _fast_tokenizer(pad=1)
    text = {**SMALL, "vocab_size": len(tokenizer), "max_position_embeddings": 32, "project_dim": 16}
    config = tf.AltCLIPConfig(
        text_config={**text, "pad_token_id": 1}, vision_config=VISION, projection_dim=12
    )
    return _save(folder, tf.AltCLIPModel(config), tokenizer, _images("CLIPImageProcessor"))


def chinese_clip(folder: Path) -> Path:
    tokenizer, size = _bert_tokenizer(folder)
    config = tf.ChineseCLIPConfig(
        text_config={**SMALL, "vocab_size": size, "max_position_embeddings": 40},
        vision_config=VISION,
        projection_dim=12,
    )
    images = _images("ChineseCLIPImageProcessor")
    return _save(folder, tf.ChineseCLIPModel(config), tokenizer, images)


def siglip(folder: Path) -> Path:
    tokenizer = _piece_tokenizer(folder)
    text = {**SMALL, "vocab_size": len(tokenizer), "max_position_embeddings": 24}
    config = tf.SiglipConfig(text_config={**text, "projection_size": 16}, vision_config=VISION)
    return _save(folder, tf.SiglipModel(config), tokenizer, _images("SiglipImageProcessor"))


def siglip2(folder: Path) -> Path:
    tokenizer = _fast_tokenizer(pad=1)
    text = {**SMALL, "vocab_size": len(tokenizer), "max_position_embeddings": 24}
    config = tf.Siglip2Config(
        text_config={**text, "projection_size": 16},
        vision_config={**SMALL, "patch_size": 8, "num_patches": 16},
    )
    images = getattr(tf, "Siglip2ImageProcessorPil" if FIVE else "Siglip2ImageProcessor")(
        patch_size=8, max_num_patches=16
    )
    return _save(folder, tf.Siglip2Model(config), tokenizer, images)


def clap(folder: Path, fused: bool = False) -> Path:
    tokenizer = _fast_tokenizer(pad=1)
    text = {**SMALL, "vocab_size": len(tokenizer), "max_position_embeddings": 32}
    audio = {
        "spec_size": 32,
        "num_mel_bins": 16,
        "patch_size": 4,
        "patch_stride": [4, 4],
        "patch_embeds_hidden_size": 8,
        "hidden_size": 16,
        "depths": [1, 1],
        "num_attention_heads": [2, 2],
        "window_size": 2,
        "aff_block_r": 1,
        "enable_fusion": fused,
    }
    config = tf.ClapConfig(
        text_config={**text, "pad_token_id": 1}, audio_config=audio, projection_dim=12
    )
    sounds = tf.ClapFeatureExtractor(
        feature_size=16,
        max_length_s=1,
        truncation="fusion" if fused else "rand_trunc",
        hop_length=1000,
    )
    return _save(folder, tf.ClapModel(config), tokenizer, sounds)


def blip(folder: Path) -> Path:
    tokenizer, size = _bert_tokenizer(folder, extra=("[DEC]", "[ENC]"))
    text = {**SMALL, "vocab_size": size, "max_position_embeddings": 40, "encoder_hidden_size": 16}
    config = tf.BlipConfig(text_config=text, vision_config=VISION, image_text_hidden_size=12)
    model = tf.BlipForImageTextRetrieval(config)
    return _save(folder, model, tokenizer, _images("BlipImageProcessor"))


def blip2(folder: Path) -> Path:
    tokenizer, size = _bert_tokenizer(folder, extra=("[DEC]",))
    qformer = {**SMALL, "vocab_size": size, "max_position_embeddings": 40}
    config = tf.Blip2Config(
        vision_config=VISION,
        qformer_config={**qformer, "encoder_hidden_size": 16, "use_qformer_text_input": True},
        num_query_tokens=6,
        image_text_hidden_size=12,
    )
    model = tf.Blip2ForImageTextRetrieval(config)
    return _save(folder, model, tokenizer, _images("BlipImageProcessor"))


CHECKPOINTS = {
    "CLIPModel": clip,
    "AltCLIPModel": altclip,
    "ChineseCLIPModel": chinese_clip,
    "SiglipModel": siglip,
    "Siglip2Model": siglip2,
    "ClapModel": clap,
    "BlipForImageTextRetrieval": blip,
    "Blip2ForImageTextRetrieval": blip2,
}
