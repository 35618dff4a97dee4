"""BLIP as its authors write it to disk: momentum copies, queues, decoder and all."""

import torch
from reference_bert import Attention, Embeddings, Intermediate, Output
from torch import nn


class VisionAttention(nn.Module):
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
        weights = torch.softmax(q @ k.transpose(-1, -2) * size**-0.5, dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.fc2(nn.functional.gelu(self.fc1(x)))


class VisionBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = VisionAttention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Conv2d(3, width, 16, 16)


class Vision(nn.Module):
    def __init__(self, side, width, depth, heads):
        super().__init__()
        self.cls_token = nn.Parameter(torch.randn(1, 1, width))
        self.pos_embed = nn.Parameter(torch.randn(1, (side // 16) ** 2 + 1, width))
        self.patch_embed = PatchEmbed(width)
        self.blocks = nn.ModuleList([VisionBlock(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, pixels):
        x = self.patch_embed.proj(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class TextLayer(nn.Module):
    def __init__(self, width, heads, seen):
        super().__init__()
        self.attention = Attention(width, heads)
        self.crossattention = Attention(width, heads, seen)
        self.intermediate = Intermediate(width)
        self.output = Output(4 * width, width)

    def forward(self, x, mask, image):
        x = self.attention(x, mask)
        if image is not None:
            x = self.crossattention(x, None, image)
        return self.output(self.intermediate(x), x)


class Layers(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layer = nn.ModuleList(layers)


class Text(nn.Module):
    def __init__(self, words, places, width, depth, heads, seen):
        super().__init__()
        self.embeddings = Embeddings(words, places, width)
        self.encoder = Layers([TextLayer(width, heads, seen) for _ in range(depth)])

    def forward(self, ids, mask, image=None):
        x = self.embeddings(ids)
        for layer in self.encoder.layer:
            x = layer(x, mask, image)
        return x


class Decoder(nn.Module):
    def __init__(self, words, places, width, depth, heads, seen):
        super().__init__()
        self.bert = Text(words, places, width, depth, heads, seen)
        self.cls = nn.Linear(width, words)


class Reference(nn.Module):
    """Real base: Reference(384, (768, 12, 12), (30524, 512, 768, 12, 12), 256)."""

    def __init__(self, side, vision, text, common, pretrained=True):
        super().__init__()
        for copy in ("", "_m"):
            self.add_module(f"visual_encoder{copy}", Vision(side, *vision))
            self.add_module(f"text_encoder{copy}", Text(*text, vision[0]))
            self.add_module(f"vision_proj{copy}", nn.Linear(vision[0], common))
            self.add_module(f"text_proj{copy}", nn.Linear(text[2], common))
        self.itm_head = nn.Linear(text[2], 2)
        self.temp = nn.Parameter(torch.tensor(0.07))
        self.register_buffer("image_queue", torch.zeros(common, 8))
        self.register_buffer("text_queue", torch.zeros(common, 8))
        if pretrained:
            self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))
            self.text_decoder = Decoder(*text, vision[0])
        else:
            self.register_buffer("idx_queue", torch.zeros(1, 8, dtype=torch.long))
            self.register_buffer("ptr_queue", torch.zeros(1, dtype=torch.long))

    def image(self, pixels):
        return unit(self.vision_proj(self.visual_encoder(pixels)[:, 0]))

    def text(self, ids, mask):
        return unit(self.text_proj(self.text_encoder(ids, mask)[:, 0]))

    def matching(self, pixels, ids, mask):
        return self.itm_head(self.text_encoder(ids, mask, self.visual_encoder(pixels))[:, 0])


def unit(x):
    return x / x.norm(dim=-1, keepdim=True)
