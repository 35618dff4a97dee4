"""The dual encoder of photographs: its files, its small pictures, and which cells are measured."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from training.photographs import classes, measure, shrink, stored

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
    stored.write(path, weights)
    found = stored.read(path)
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
    from queryshift.lab.evaluation.runner.choices import Choices
    from queryshift.lab.evaluation.runner.prepared_benchmark import prepare
    from queryshift.lab.evaluation.runner.workbench import Workbench

    root = small.flickr8k(tmp_path / "data")
    choices = Choices(model="tangram", root=Path(root), preprocessing="library")
    row = BENCHMARKS["flickr8k-clean-text"]
    made = measure._narrowed(prepare(row, choices, tmp_path, Workbench()), captions=1)
    assert made.parts[0].dataset.query_ids == ["1_a#0", "2_b#1"]
    assert made.queries == made.settings["queries"] == 2


def photographs_cell(method, recalls, query="image", kind="o", shift="fog"):
    """A cell of 1,000 pictures of which so many percent are right."""
    from queryshift.lab.evaluation.results import Cell

    captions = 2 if query == "text" else 1
    right = np.repeat(np.arange(1000) < 10 * recalls, captions)
    severity = {"fog": 2, "gaussian_noise": 1}.get(shift, 3)
    return Cell(
        benchmark=f"flickr8k-{kind}-{query}",
        shift="" if kind in ("d", "clean") else shift,
        severity=severity,
        protocol="diverse" if kind == "d" else "online",
        method=method,
        seed=0,
        ranks=np.where(right, 1, 9),
        candidates=5000,
    )


def test_the_best_rate_is_chosen_over_all_shifted_streams(monkeypatch):
    from training.photographs import report

    streams = (("flickr8k-o-image", "fog", 2), ("flickr8k-d-image", "", 2))
    monkeypatch.setattr(report, "STREAMS", (*streams, ("flickr8k-clean-image", "", 0)))
    recalls = {"rest:lr=0.001": (30, 10), "rest:lr=0.01": (20, 30), "rest:lr=0.1": (90,)}
    cells = [
        photographs_cell(method, recall, kind=kind)
        for method, some in recalls.items()
        for recall, kind in zip(some, "od", strict=False)
    ]
    cells += [photographs_cell("rest:lr=0.001", 99, kind="clean"), photographs_cell("frozen", 5)]
    assert report.best_rates(cells, "image") == {"rest": 0.01}  # 0.1 lacks a stream
    assert report.grid(cells, "image").splitlines()[-1] == "| rest |  | 20.0 | **25.0** |"


def test_differences_say_what_is_within_chance():
    from training.photographs import report

    cells = [
        photographs_cell(method, recall, query, kind)
        for method, recall in (("default:lr=0.001", 40), ("shot:lr=0.003", 30), ("tent", 39.9))
        for query in ("image", "text")
        for kind in ("o", "clean")
    ]
    table = report.differences(cells, "default", ("shot", "tent")).splitlines()
    assert "within chance" not in table[2] and table[2].count("+10.00") == 5
    assert table[3].count("within chance") == 5


def test_a_method_of_fewer_seeds_is_compared_over_those_of_both():
    from training.photographs import report

    first = [photographs_cell(method, 30) for method in ("default", "shot")]
    cells = [*first, replace(photographs_cell("default", 90), seed=1)]
    assert report.difference(cells, "default", "shot", "image").points == 0
    assert report.recall(cells, "default", "image") == pytest.approx(60)


def test_seeds_that_lack_a_stream_are_left_out():
    from training.photographs import report

    streams = [(row, shift) for row, shift, _ in report.STREAMS if row.endswith("image")]
    cells = [
        replace(photographs_cell("shot", 30), benchmark=row, shift=shift, seed=seed)
        for seed, some in ((0, streams), (1, streams[1:]))
        for row, shift in some
    ]
    assert {cell.seed for cell in report.finished(cells)} == {0}


def test_pages_have_the_numbers_of_the_kept_results():
    from training.photographs import pages, report

    from queryshift.lab.evaluation.results import read_folder

    root = Path(__file__).parents[2]
    results = root / "docs" / "results"
    assert all(path.read_text() == text for path, text in pages.pages(root).items())
    val, test = (read_folder(results / "photographs" / part).cells for part in ("val", "test"))
    for query in ("image", "text"):
        chosen = report.best_rates(val, query)
        run = {report.named(cell) for cell in test if report.query_of(cell) == query}
        own = {(name, rate) for name, rate in run if "+" not in name and name in chosen}
        assert all(chosen[name] == rate for name, rate in own)  # the test split at those alone


def test_the_layer_for_classes_finds_them_again():
    torch.manual_seed(0)
    kinds = torch.arange(60) % 3
    features = torch.randn(3, 40)[kinds] + 0.1 * torch.randn(60, 40)
    vectors = torch.nn.functional.normalize(torch.randn(3, 8), dim=1)
    found = classes.fitted(features, vectors[kinds])(features)
    assert torch.equal((found @ vectors.T).argmax(1), kinds)
