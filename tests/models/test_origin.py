"""A gallery that other weights made is noticed; one of the same model is not complained of."""

import warnings

import pytest
import torch

import queryshift as qs

ITEMS = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)).tolist()


class Tower(qs.Encoder):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LayerNorm(8))

    def prepare(self, items):
        return torch.tensor(items)

    def forward(self, prepared):
        found = self.layers(prepared.to(self.layers[0].weight.dtype)).float()
        return torch.nn.functional.normalize(found, dim=-1)


def model(seed: int) -> dict[str, qs.Encoder]:
    torch.manual_seed(seed)
    return qs.load({"image": Tower(), "text": Tower()})


@pytest.fixture()
def gallery(tmp_path):
    """As another process would find it."""
    qs.Gallery.build(model(0)["text"], ITEMS).save(tmp_path / "gallery")
    return qs.Gallery.load(tmp_path / "gallery")


def test_other_weights_are_noticed(gallery):
    for modality in ("image", "text"):
        with pytest.warns(UserWarning, match="is none of that model's encoders: load that model"):
            qs.Session(model(1)[modality], gallery)


def test_every_encoder_of_the_same_model_is_quiet(gallery):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for modality in ("image", "text"):
            qs.Session(model(0)[modality], gallery)


def test_another_precision_is_the_same_model(gallery):
    half = model(0)["image"].to(torch.bfloat16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        qs.Session(half, gallery)


def test_weights_that_came_after_loading_are_of_no_known_model():
    changed = model(0)
    changed["text"].load_state_dict(model(1)["text"].state_dict())
    assert qs.Gallery.build(changed["text"], ITEMS).origin is None


def test_the_bundled_model_says_its_name():
    text = qs.load("tangram")["text"]
    assert qs.Gallery.build(text, ["a red square"]).origin.model == "tangram"
