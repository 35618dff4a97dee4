"""open_clip's models by their shape: a stand-in here, the real package wherever it imports."""

import numpy as np
import pytest
import torch
from torch import nn

import queryshift as qs
from queryshift.models.open_clip import wrap


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Linear(width, width)

    def forward(self, x, attn_mask=None):
        seen = self.ln_1(x)
        x = x + self.attn(seen, seen, seen, need_weights=False, attn_mask=attn_mask)[0]
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.resblocks = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x, attn_mask=None):
        for block in self.resblocks:
            x = block(x, attn_mask=attn_mask)
        return x


class Visual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 8, 8)
        self.ln_pre, self.ln_post = nn.LayerNorm(16), nn.LayerNorm(16)
        self.transformer = Transformer()
        self.proj = nn.Parameter(torch.randn(16, 10))

    def forward(self, x):
        rows = self.ln_pre(self.conv1(x).flatten(2).transpose(1, 2))
        return self.ln_post(self.transformer(rows)[:, 0]) @ self.proj


class StandIn(nn.Module):
    """The shape of open_clip's CLIP class, with its names."""

    def __init__(self):
        super().__init__()
        self.visual = Visual()
        self.transformer = Transformer()
        self.token_embedding = nn.Embedding(30, 16)
        self.ln_final = nn.LayerNorm(16)
        self.text_projection = nn.Parameter(torch.randn(16, 10))
        self.logit_scale = nn.Parameter(torch.ones([]))

    def encode_image(self, image, normalize=False):
        return self.visual(image)

    def encode_text(self, text, normalize=False):
        rows = self.ln_final(self.transformer(self.token_embedding(text)))
        return rows[torch.arange(len(text)), text.argmax(-1)] @ self.text_projection


def transform(picture):
    return torch.from_numpy(np.array(picture.resize((16, 16)), np.float32) / 255).permute(2, 0, 1)


def tokenize(texts):
    rows = torch.zeros(len(texts), 40, dtype=torch.long)
    for row, text in zip(rows, texts, strict=True):
        ids = [*(ord(letter) % 28 + 1 for letter in text[:39]), 29]
        row[: len(ids)] = torch.tensor(ids)
    return rows


@pytest.fixture()
def stand_in():
    torch.manual_seed(4)
    return StandIn()


def promises(model, items):
    for modality, encoder in model.items():
        batch = items[modality]
        vectors = encoder.encode(batch)
        assert torch.allclose(vectors.norm(dim=-1), torch.ones(len(batch)), atol=1e-5)
        params = {name: value.requires_grad_() for name, value in encoder.norm_params().items()}
        seen = encoder.through(params, encoder.ready(batch))
        assert torch.allclose(seen, vectors, atol=1e-6)
        for name, gradient in zip(
            params, torch.autograd.grad(seen[:, 0].sum(), params.values()), strict=True
        ):
            assert gradient.abs().max() > 0, name


@pytest.mark.parametrize("adapt", ["all", "last:1"])
def test_a_stand_in_keeps_every_promise(stand_in, items, adapt):
    model = wrap(stand_in, transform, tokenize, adapt)
    promises(model, items)
    assert all("visual" in name for name in model["image"].norm_params())
    assert not any("visual" in name for name in model["text"].norm_params())
    layers = {"all": (8, 7), "last:1": (2, 2)}[adapt]
    assert tuple(len(model[side].norm_names) for side in ("image", "text")) == layers


def test_sessions_adapt_it(stand_in, items):
    model = wrap(stand_in, transform, tokenize)
    gallery = qs.Gallery.build(model["text"], items["text"])
    session = qs.Session(model["image"], gallery, qs.Tent())
    assert session.answer(items["image"]).top(1).scores.shape == (3, 1)


def test_another_shape_is_refused():
    with pytest.raises(qs.Error, match="Linear has no encode_image, encode_text, visual"):
        wrap(nn.Linear(2, 2), transform, tokenize)


def test_the_real_package(items):
    open_clip = pytest.importorskip("open_clip", exc_type=ImportError)
    model, _, preprocess = open_clip.create_model_and_transforms("ViT-B-32", pretrained=None)
    promises(wrap(model, preprocess, open_clip.get_tokenizer("ViT-B-32")), items)
