"""Carry sentence encoders and sets to a machine without a network, in few megabytes.

python -m training.real.pack models MODELS/minilm MODELS/gte-small PACK --sets SETS
python -m training.real.pack aws SETS/aws PACK/aws
python -m training.real.pack pictures PACS PACK/pacs
python -m training.real.pack open PACK/minilm models/minilm

SETS holds the folders `aws` (botocore/data) and `msmarco`. A packed model has its matrices in half
precision (--half) or in eight bits a number with a scale for every 32, and vectors only of those
word pieces that the sets have.
`open` makes a sentence-transformers directory of it; another word piece is an error there. Pictures
become 128 pixels wide and high.
"""

from __future__ import annotations

import argparse
import gzip
import html
import json
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from queryshift.lab.datasets import DATASETS, Dataset
from queryshift.lab.datasets.aws import operations
from queryshift.lab.datasets.pacs import CLASSES, ENDINGS, TEMPLATES
from queryshift.lab.evaluation.benchmarks import Benchmark, find
from queryshift.lab.evaluation.corrupted_queries import Shifted, corruption_of
from queryshift.lab.evaluation.runner.plans import Choices
from training.real.lexical import Speller

WEIGHTS, WORDS = "model.safetensors", "embeddings.word_embeddings.weight"
ROWS, SCALE = "rows", ".scale"
GROUP, LEVELS = 32, 127
SIDE, QUALITY = 128, 80  # of pictures
SERIES = ("aws", "aws-dev", "msmarco")
TEXT_FILES = ("*.json", "vocab.txt", "1_Pooling/*.json")


def pack_models(sources: Sequence[Path], target: Path, sets: Path, seeds: int, half: bool) -> None:
    """Write each model under its own name, its weights in a fifth or a third of their bytes."""
    from transformers import AutoTokenizer

    wanted = sorted(texts(sets, seeds))
    for source in sources:
        home = target / source.name
        for file in (each for form in TEXT_FILES for each in source.glob(form)):
            copy = home / file.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        tokenizer = AutoTokenizer.from_pretrained(str(source))
        used = {one for own in tokenizer(wanted)["input_ids"] for one in own}
        rows = torch.tensor(sorted({*used, *tokenizer.all_special_ids}))
        weights = load_file(source / WEIGHTS)
        body = {ROWS: rows} | packed(WORDS, weights.pop(WORDS)[rows], half)
        for name, value in weights.items():
            body |= packed(name, value, half)
        save_file(body, home / WEIGHTS)
        size = (home / WEIGHTS).stat().st_size / 2**20
        print(f"{home}: {len(rows):,} word pieces, {size:.1f} MiB", flush=True)


def texts(sets: Path, seeds: int) -> set[str]:
    """All documents, and the queries of all streams as they are typed and corrected."""
    found = {form.format(kind) for kind in CLASSES for form in TEMPLATES}
    rows = [each for series in SERIES for each in find(series)]
    for dataset, part in {(row.dataset, row.part) for row in rows}:
        own = DATASETS[dataset](sets / dataset, part=part)
        speller = Speller(list(own.candidates))
        asked = {
            text
            for row in rows
            if (row.dataset, row.part) == (dataset, part)
            for seed in range(seeds)
            for text in queries(row, own, seed)
        }
        found |= {*own.candidates, *asked, *map(speller.corrected, asked)}
    return found


def queries(row: Benchmark, dataset: Dataset, seed: int) -> Iterator[str]:
    """Those of a benchmark under all its shifts."""
    for shift in row.shifts:
        for severity in row.severities or (0,):
            yield from Shifted(dataset, corruption_of(row, shift, Choices()), severity, seed)


def packed(name: str, value: Tensor, half: bool) -> dict[str, Tensor]:
    """A matrix in half precision, or as eight-bit levels and scales; anything else as it is."""
    if not value.is_floating_point() or value.ndim != 2 or value.shape[1] % GROUP:
        return {name: value}
    if half:
        return {name: value.half()}
    groups = value.float().unflatten(1, (-1, GROUP))
    scale = (groups.abs().amax(2) / LEVELS).clamp(min=1e-7).half()
    levels = (groups / scale.float()[..., None]).round().clamp(-LEVELS, LEVELS)
    return {name: levels.to(torch.int8).flatten(1), name + SCALE: scale}


def unpacked(value: Tensor, scale: Tensor | None) -> Tensor:
    """What `packed` was given, nearly."""
    if scale is None:
        return value.float() if value.is_floating_point() else value
    return (value.float().unflatten(1, (-1, GROUP)) * scale.float()[..., None]).flatten(1)


def open_model(source: Path, target: Path) -> None:
    """Write the sentence-transformers directory of a packed model."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    body = load_file(source / WEIGHTS)
    rows = body.pop(ROWS)
    weights = {
        name: unpacked(value, body.get(name + SCALE))
        for name, value in body.items()
        if not name.endswith(SCALE)
    }
    words = json.loads((source / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    whole = torch.full((words, weights[WORDS].shape[1]), torch.nan)  # so that no other is used
    whole[rows] = weights[WORDS]
    save_file(weights | {WORDS: whole}, target / WEIGHTS, {"format": "pt"})


def pack_aws(source: Path, target: Path) -> None:
    """Write service models that hold names and the documents that the set reads from them."""
    documents: dict[str, dict[str, str]] = defaultdict(dict)
    for each in (one for side in ("test", "dev") for one in operations(source, side)):
        ended = each.document + "." * each.document.endswith(" ")  # a space at the cut stays
        documents[each.service][each.name] = html.escape(ended, quote=False)
    for service, own in documents.items():
        newest = sorted((source / service).glob("*/service-2.json*"))[-1]
        opened = gzip.open if newest.suffix == ".gz" else open
        with opened(newest, "rt", encoding="utf-8") as file:
            stored = json.load(file)
        small = {
            "metadata": {"serviceFullName": stored["metadata"]["serviceFullName"]},
            "operations": {
                name: {"documentation": own[name]} for name in stored["operations"] if name in own
            },
        }
        folder = target / service / newest.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "service-2.json.gz").write_bytes(gzip.compress(json.dumps(small).encode(), 9))


def pack_pictures(source: Path, target: Path) -> None:
    """Write small copies of all pictures under their own names, as WebP."""
    from PIL import Image

    for file in (each for end in ENDINGS for each in source.rglob(f"*{end}")):
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(file) as image:
            small = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        small.save(copy, "WEBP", quality=QUALITY)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("models", *ONE))
    parser.add_argument("source", type=Path, nargs="+")
    parser.add_argument("target", type=Path)
    parser.add_argument("--sets", type=Path, help="for models: the sets they will be asked")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--half", action="store_true")
    options = parser.parse_args()
    if options.what == "models":
        pack_models(options.source, options.target, options.sets, options.seeds, options.half)
    else:
        ONE[options.what](*options.source, options.target)


ONE = {"aws": pack_aws, "pictures": pack_pictures, "open": open_model}


if __name__ == "__main__":
    main()
