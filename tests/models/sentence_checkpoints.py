"""Tiny models in the format of sentence-transformers, written without that library."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers as tf
from safetensors.torch import save_file
from tiny_checkpoints import SMALL, _bert_tokenizer, _fast_tokenizer, _save, clip

OLD, NEW = "sentence_transformers.models.", "sentence_transformers.sentence_transformer.modules."


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def _list(folder: Path, *modules: tuple[str, str]) -> None:
    """`modules.json` of pairs (path, type)."""
    entries = [
        {"idx": index, "name": str(index), "path": path, "type": kind}
        for index, (path, kind) in enumerate(modules)
    ]
    _write(folder / "modules.json", entries)


def _bert(folder: Path, model: str = "BertModel") -> None:
    tokenizer, size = _bert_tokenizer(folder)
    config = tf.BertConfig(**SMALL, vocab_size=size, max_position_embeddings=40)
    _save(folder, getattr(tf, model)(config), tokenizer)


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))) / 4


def sentence(
    folder: Path,
    pooling: Mapping[str, Any] | None = None,
    prompts: Mapping[str, str] | None = None,
    default: str | None = None,
    model: str = "BertModel",
    **tower: Any,
) -> Path:
    """BERT, a pooling and Normalize: what most published models are."""
    _bert(folder, model)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": 32, **tower})
    _write(
        folder / "1_Pooling" / "config.json", {"word_embedding_dimension": 16, **(pooling or {})}
    )
    if prompts is not None:
        content = {"prompts": prompts, "default_prompt_name": default}
        _write(folder / "config_sentence_transformers.json", content)
    _list(
        folder,
        ("", f"{OLD}Transformer"),
        ("1_Pooling", f"{OLD}Pooling"),
        ("2_N", f"{OLD}Normalize"),
    )
    return folder


def with_dense(folder: Path, activation: str = "activation.Tanh", as_pickle: bool = False) -> Path:
    """BERT, mean pooling, Dense, LayerNorm and no Normalize, under the library's newer names."""
    sentence(folder)
    content = {
        "in_features": 16,
        "out_features": 6,
        "bias": True,
        "activation_function": f"torch.nn.modules.{activation}",
    }
    _write(folder / "2_Dense" / "config.json", content)
    weights = {"linear.weight": _random(6, 16), "linear.bias": _random(6)}
    if as_pickle:
        torch.save(weights, folder / "2_Dense" / "pytorch_model.bin")
    else:
        save_file(weights, folder / "2_Dense" / "model.safetensors")
    _write(folder / "3_LayerNorm" / "config.json", {"dimension": 6})
    norm = {"norm.weight": 1 + _random(6), "norm.bias": _random(6)}
    save_file(norm, folder / "3_LayerNorm" / "model.safetensors")
    base = "sentence_transformers.base.modules."
    _list(
        folder,
        ("", f"{base}transformer.Transformer"),
        ("1_Pooling", f"{NEW}pooling.Pooling"),
        ("2_Dense", f"{base}dense.Dense"),
        ("3_LayerNorm", f"{NEW}layer_norm.LayerNorm"),
    )
    return folder


def padded_before(folder: Path, modes: Sequence[str]) -> Path:
    """A decoder whose texts are padded at their start."""
    tokenizer = _fast_tokenizer(pad=1)
    tokenizer.padding_side = "left"
    config = tf.Qwen3Config(
        **SMALL,
        vocab_size=len(tokenizer),
        max_position_embeddings=32,
        num_key_value_heads=2,
        head_dim=8,
        pad_token_id=1,
    )
    _save(folder, tf.Qwen3Model(config), tokenizer)
    content = {"embedding_dimension": 16, "pooling_mode": list(modes)}
    _write(folder / "1_Pooling" / "config.json", content)
    _list(folder, ("", f"{OLD}Transformer"), ("1_Pooling", f"{OLD}Pooling"))
    return folder


def of_clip(folder: Path) -> Path:
    """CLIP in a folder of its own."""
    inner = folder / "0_CLIPModel"
    inner.mkdir()
    clip(inner)
    _list(folder, ("0_CLIPModel", f"{OLD}CLIPModel"))
    return folder


CHECKPOINTS = {"sentence-transformers": sentence, "sentence-transformers-dense": with_dense}
