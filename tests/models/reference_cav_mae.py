"""CAV-MAE written down plainly, decoder and all, to write checkpoints and check vectors with."""

import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, width * 3)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        size = width // self.heads
        q, k, v = (
            part.reshape(batch, tokens, self.heads, size).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(size), dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, width * 4)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(width * 4, width)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.norm1_a = nn.LayerNorm(width)
        self.norm1_v = nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.norm2_a = nn.LayerNorm(width)
        self.norm2_v = nn.LayerNorm(width)
        self.mlp = Mlp(width)

    def forward(self, x, modality=None):
        first = {None: self.norm1, "a": self.norm1_a, "v": self.norm1_v}[modality]
        second = {None: self.norm2, "a": self.norm2_a, "v": self.norm2_v}[modality]
        x = x + self.attn(first(x))
        return x + self.mlp(second(x))


class PatchEmbed(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.proj = nn.Conv2d(channels, width, 16, 16)


class Reference(nn.Module):
    """Real size: Reference(768, 11, 12, 512, 8, 16, 1024, 224)."""

    def __init__(self, width, depth, heads, inner, inner_depth, inner_heads, length, side):
        super().__init__()
        sounds, views = length * 128 // 256, (side // 16) ** 2
        self.patch_embed_a = PatchEmbed(1, width)
        self.patch_embed_v = PatchEmbed(3, width)
        self.modality_a = nn.Parameter(torch.randn(1, 1, width))
        self.modality_v = nn.Parameter(torch.randn(1, 1, width))
        self.pos_embed_a = nn.Parameter(torch.randn(1, sounds, width))
        self.pos_embed_v = nn.Parameter(torch.randn(1, views, width))
        self.blocks_a = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.blocks_v = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.blocks_u = nn.ModuleList([Block(width, heads)])
        self.norm_a, self.norm_v, self.norm = (nn.LayerNorm(width) for _ in range(3))
        self.decoder_embed = nn.Linear(width, inner)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, inner))
        self.decoder_modality_a = nn.Parameter(torch.zeros(1, 1, inner))
        self.decoder_modality_v = nn.Parameter(torch.zeros(1, 1, inner))
        self.decoder_pos_embed_a = nn.Parameter(torch.zeros(1, sounds, inner))
        self.decoder_pos_embed_v = nn.Parameter(torch.zeros(1, views, inner))
        self.decoder_blocks = nn.ModuleList([Block(inner, inner_heads) for _ in range(inner_depth)])
        self.decoder_norm = nn.LayerNorm(inner)
        self.decoder_pred_a = nn.Linear(inner, 256)
        self.decoder_pred_v = nn.Linear(inner, 768)

    def audio(self, banks):
        a = self.patch_embed_a.proj(banks.unsqueeze(1).transpose(2, 3)).flatten(2).transpose(1, 2)
        a = a + self.pos_embed_a + self.modality_a
        for block in self.blocks_a:
            a = block(a)
        for block in self.blocks_u:
            a = block(a, "a")
        return pooled(self.norm_a(a))

    def video(self, pixels):
        v = self.patch_embed_v.proj(pixels).flatten(2).transpose(1, 2)
        v = v + self.pos_embed_v + self.modality_v
        for block in self.blocks_v:
            v = block(v)
        for block in self.blocks_u:
            v = block(v, "v")
        return pooled(self.norm_v(v))


def pooled(tokens):
    mean = tokens.mean(dim=1)
    return mean / mean.norm(dim=-1, keepdim=True)
