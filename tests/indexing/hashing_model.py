"""A small encoder of texts, made again alike in every process, that can be slow."""

import hashlib
import os
import sys
import time
from pathlib import Path

import torch
from torch.nn.functional import normalize

import queryshift as qs
from queryshift.errors import BadInput
from queryshift.media.item_reading import read_each

DIMENSION = 16
REFUSED = "refused"


def draw(text):
    """A vector drawn from a hash of the text."""
    if REFUSED in text:
        raise BadInput("it is refused.")
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big")
    return torch.randn(DIMENSION, generator=torch.Generator().manual_seed(seed))


class HashingEncoder(qs.Encoder):
    """Vectors drawn from a hash of the text; each batch takes SLOW_S seconds."""

    modality = "text"

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(DIMENSION)

    def prepare(self, items):
        time.sleep(float(os.environ.get("SLOW_S", "0")))
        note_node(os.environ.get("NODES_SEEN"))
        return torch.stack(read_each(items, draw))

    def forward(self, prepared):
        return normalize(self.norm(prepared), dim=1)


def note_node(path):
    """Write down which node of a Ray cluster this is, where that is asked for."""
    if path and (ray := sys.modules.get("ray")) and ray.is_initialized():
        with Path(path).open("a") as file:
            file.write(f"{ray.get_runtime_context().get_node_id()}\n")


def make():
    return HashingEncoder()


def other():
    """The same class with other weights."""
    encoder = HashingEncoder()
    with torch.no_grad():
        encoder.norm.weight.fill_(2.0)
    return encoder
