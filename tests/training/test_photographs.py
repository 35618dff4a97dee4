"""The dual encoder of photographs: its files, its small pictures, and which cells are measured."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from training.photographs import classes, measure, quantised_weights, shrink

from small_datasets import small


def test_weights_come_back_within_half_a_level(tmp_path):
    torch.manual_seed(0)
    weights = {
        "kernel": torch.randn(6, 3, 5, 5),
        "gain": torch.rand(7),
        "empty": torch.zeros(2, 3),
        "steps": torch.tensor(9),
    }
    path = tmp_path / "new" / "weights.safetensors"
    quantised_weights.write(path, weights)
    found = quantised_weights.read(path)
    assert found.keys() == weights.keys()
    level = weights["kernel"].flatten(1).abs().amax(1) / 127
    error = (found["kernel"] - weights["kernel"]).flatten(1).abs().amax(1)
    assert (error <= level * 0.501).all()
    assert torch.equal(found["gain"], weights["gain"].half().float())
    assert torch.equal(found["empty"], weights["empty"])
    assert found["steps"].dtype == torch.int64


@pytest.mark.parametrize(
    ("size", "expected"),
    [((500, 375), (256, 192)), ((333, 500), (192, 256)), ((500, 100), (256, 192)), ((80, 80),) * 2],
)
def test_small_pictures_keep_their_middle(size, expected):
    expected = (192, 192) if expected == (80, 80) else expected
    width, height = size
    across = np.linspace(0, 255, width).astype(np.uint8)
    picture = Image.fromarray(np.broadcast_to(across[None, :, None], (height, width, 3)).copy())
    found = shrink.shrunk(picture)
    assert found.size == expected
    left, right = (int(np.asarray(found)[10, place, 0]) for place in (0, -1))
    assert abs(left - (255 - right)) <= 2  # as much is cut off either end


def test_a_shrunk_folder_is_read_as_the_dataset(tmp_path, monkeypatch):
    from queryshift.lab.datasets import DATASETS

    root, out = small.flickr8k(tmp_path / "whole"), tmp_path / "small"
    monkeypatch.setattr("sys.argv", ["shrink", str(root), str(out)])
    shrink.main()
    dataset = DATASETS["flickr8k"](out, query="text", part="val")
    assert len(dataset) == 5 and dataset.candidates[0].size == (256, 192)
    assert len(list((out / "Flicker8k_Dataset").iterdir())) == 5


def test_every_method_that_learns_runs_at_every_rate():
    specs = list(measure._specs(["frozen+hubs", "rest+hubs", "tent", "shot:lr=0.1"], [1e-3, 1e-4]))
    assert specs == [
        "frozen+hubs",
        "shot:lr=0.1",
        "rest:lr=0.001+hubs",
        "tent:lr=0.001",
        "rest:lr=0.0001+hubs",
        "tent:lr=0.0001",
    ]
    assert list(measure._specs(["rest", "frozen"], [])) == ["rest", "frozen"]


def test_towers_answer_a_picture_and_its_words():
    pytest.importorskip("efficientnet_lite_pytorch", reason="a package of the model's maker")
    from training.photographs.towers import CaptionTower, PictureTower

    seen = PictureTower().eval()(torch.rand(2, 3, 224, 224) * 255)
    read = CaptionTower().eval()(torch.tensor([[101, 2000, 102, 0], [101, 2001, 2002, 102]]))
    assert seen.shape == read.shape == (2, 256)
    assert torch.allclose(seen.norm(dim=1), torch.ones(2), atol=1e-5)


def test_one_caption_of_each_picture_asks(tmp_path):
    from queryshift.lab.evaluation.benchmarks import BENCHMARKS
    from queryshift.lab.evaluation.runner.context import RunContext
    from queryshift.lab.evaluation.runner.plans import Choices
    from queryshift.lab.evaluation.runner.prepared_benchmark import prepare

    root = small.flickr8k(tmp_path / "data")
    choices = Choices(model="tangram", root=Path(root), preprocessing="library")
    row = BENCHMARKS["flickr8k-clean-text"]
    made = measure._narrowed(prepare(row, choices, tmp_path, RunContext()), captions=1)
    assert made.parts[0].dataset.query_ids == ["1_a#0", "2_b#1"]
    assert made.queries == made.settings["queries"] == 2


def test_the_layer_for_classes_finds_them_again():
    torch.manual_seed(0)
    kinds = torch.arange(60) % 3
    features = torch.randn(3, 40)[kinds] + 0.1 * torch.randn(60, 40)
    vectors = torch.nn.functional.normalize(torch.randn(3, 8), dim=1)
    found = classes.fitted(features, vectors[kinds])(features)
    assert torch.equal((found @ vectors.T).argmax(1), kinds)
