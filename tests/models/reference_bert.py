"""BERT's layers written down plainly, with the names that checkpoints give their weights."""

import math

import torch
from torch import nn

EPS = 1e-12


class SelfAttention(nn.Module):
    def __init__(self, width, heads, seen):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(seen, width)
        self.value = nn.Linear(seen, width)

    def forward(self, x, mask, others=None):
        others = x if others is None else others
        q, k, v = (
            part.reshape(*part.shape[:2], self.heads, -1).transpose(1, 2)
            for part in (self.query(x), self.key(others), self.value(others))
        )
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores + (1.0 - mask[:, None, None].float()) * -10000.0
        return (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(x.shape)


class Output(nn.Module):
    def __init__(self, before, width):
        super().__init__()
        self.dense = nn.Linear(before, width)
        self.LayerNorm = nn.LayerNorm(width, eps=EPS)

    def forward(self, x, residual):
        return self.LayerNorm(self.dense(x) + residual)


class Attention(nn.Module):
    def __init__(self, width, heads, seen=None):
        super().__init__()
        self.self = SelfAttention(width, heads, seen or width)
        self.output = Output(width, width)

    def forward(self, x, mask, others=None):
        return self.output(self.self(x, mask, others), x)


class Intermediate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.dense = nn.Linear(width, 4 * width)

    def forward(self, x):
        return nn.functional.gelu(self.dense(x))


class Embeddings(nn.Module):
    def __init__(self, words, places, width):
        super().__init__()
        self.word_embeddings = nn.Embedding(words, width)
        self.position_embeddings = nn.Embedding(places, width)
        self.LayerNorm = nn.LayerNorm(width, eps=EPS)
        self.register_buffer("position_ids", torch.arange(places)[None])

    def forward(self, ids=None, before=None):
        rows = [] if before is None else [before]
        if ids is not None:
            places = self.position_embeddings(self.position_ids[:, : ids.shape[1]])
            rows.append(self.word_embeddings(ids) + places)
        return self.LayerNorm(torch.cat(rows, dim=1))


def shaken(module):
    """The module with every weight moved at random, so that no two norm layers are alike."""
    with torch.no_grad():
        for value in module.parameters():
            value.add_(0.05 * torch.randn_like(value))
    return module.eval()
