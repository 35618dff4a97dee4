"""SPRC as its authors write it to disk: EVA's vision transformer and their Q-Former."""

import torch
from reference_bert import Attention, Embeddings, Intermediate, Output
from torch import nn


class VisionAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_bias = nn.Parameter(torch.randn(width))
        self.v_bias = nn.Parameter(torch.randn(width))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (
            part.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)
            for part in (q + self.q_bias, k, v + self.v_bias)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(x.shape))


class Mlp(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)

    def forward(self, x):
        return self.fc2(nn.functional.gelu(self.fc1(x)))


class VisionBlock(nn.Module):
    def __init__(self, width, inner, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = VisionAttention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = Mlp(width, inner)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Conv2d(3, width, 14, 14)


class Vision(nn.Module):
    def __init__(self, side, width, inner, depth, heads):
        super().__init__()
        self.cls_token = nn.Parameter(torch.randn(1, 1, width))
        self.pos_embed = nn.Parameter(torch.randn(1, (side // 14) ** 2 + 1, width))
        self.patch_embed = PatchEmbed(width)
        self.blocks = nn.ModuleList([VisionBlock(width, inner, heads) for _ in range(depth)])

    def forward(self, pixels):
        x = self.patch_embed.proj(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return x


class Layer(nn.Module):
    def __init__(self, index, width, heads, seen):
        super().__init__()
        self.attention = Attention(width, heads)
        if index % 2 == 0:
            self.crossattention = Attention(width, heads, seen)
        self.intermediate = Intermediate(width)
        self.output = Output(4 * width, width)
        self.intermediate_query = Intermediate(width)
        self.output_query = Output(4 * width, width)

    def forward(self, x, mask, image, queries):
        x = self.attention(x, mask)
        if image is None:
            return self.output(self.intermediate(x), x)
        asked, words = x[:, :queries], x[:, queries:]
        if hasattr(self, "crossattention"):
            asked = self.crossattention(asked, None, image)
        asked = self.output_query(self.intermediate_query(asked), asked)
        return torch.cat([asked, self.output(self.intermediate(words), words)], dim=1)


class Layers(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layer = nn.ModuleList(layers)


class Bert(nn.Module):
    def __init__(self, words, places, width, depth, heads, seen):
        super().__init__()
        self.embeddings = Embeddings(words, places, width)
        self.encoder = Layers([Layer(index, width, heads, seen) for index in range(depth)])

    def forward(self, before, ids=None, mask=None, image=None):
        x = self.embeddings(ids, before)
        for layer in self.encoder.layer:
            x = layer(x, mask, image, before.shape[1])
        return x


class QFormer(nn.Module):
    def __init__(self, words, places, width, depth, heads, seen):
        super().__init__()
        self.bert = Bert(words, places, width, depth, heads, seen)
        self.cls = nn.Linear(width, words)


class Reference(nn.Module):
    """Real size: Reference(224, (1408, 6144, 39, 16), (30523, 512, 768, 12, 12), 256)."""

    def __init__(self, side, vision, text, common):
        super().__init__()
        self.visual_encoder = Vision(side, *vision)
        self.ln_vision = nn.LayerNorm(vision[0])
        self.Qformer = QFormer(*text, vision[0])
        self.query_tokens = nn.Parameter(torch.randn(1, 32, text[2]))
        self.prompt_tokens = nn.Parameter(torch.randn(1, 32, text[2]))
        self.vision_proj = nn.Linear(text[2], common)
        self.text_proj = nn.Linear(text[2], common)
        self.itm_head = nn.Linear(text[2], 2)
        self.temp = nn.Parameter(torch.tensor(0.07))

    def queries(self, pixels, ids, mask):
        asked = self.query_tokens.expand(len(pixels), -1, -1)
        whole = torch.cat([torch.ones(asked.shape[:2]), mask], dim=1)
        image = self.ln_vision(self.visual_encoder(pixels))
        fused = self.Qformer.bert(asked, ids, whole, image)[:, :32]
        return unit(self.text_proj(self.Qformer.bert(fused, ids, whole)[:, 32]))

    def gallery(self, pixels):
        asked = self.query_tokens.expand(len(pixels), -1, -1)
        image = self.ln_vision(self.visual_encoder(pixels))
        return unit(self.vision_proj(self.Qformer.bert(asked, image=image)))


def unit(x):
    return x / x.norm(dim=-1, keepdim=True)
