"""What every model promises, over the authors' own formats, loaded by their path alone."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import original_checkpoints
import pytest
import torch

import queryshift as qs
from queryshift.models import FORMATS

WRITERS = {
    "blip_original": original_checkpoints.blip,
    "cav_mae": original_checkpoints.cav_mae,
    "sprc": original_checkpoints.sprc,
}
GALLERIES = {  # format, and which modality asks for which
    ("blip_original", "image"): "text",
    ("blip_original", "text"): "image",
    ("cav_mae", "audio"): "video",
    ("cav_mae", "video"): "audio",
    ("sprc", "image+text"): "image",
}
IDS = ["-".join(side) for side in GALLERIES]
COUNT = 6


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return {name: write(tmp_path_factory.mktemp(name))[1] for name, write in WRITERS.items()}


@pytest.fixture(scope="module")
def models(paths):
    return {name: qs.load(path) for name, path in paths.items()}


@pytest.fixture(scope="module")
def queries():
    draw = np.random.default_rng(7)
    clips = list(draw.integers(0, 256, (COUNT, 10, 40, 50, 3), dtype=np.uint8))
    texts = ["a dog", "red dog runs", "long grass", "a long red dog", "dog on grass", "runs"]
    pictures = [clip[0] for clip in clips]
    return {
        "image": pictures,
        "text": texts,
        "audio": list(draw.uniform(-0.5, 0.5, (COUNT, 6000)).astype(np.float32)),
        "video": clips,
        "image+text": list(zip(pictures, texts, strict=True)),
    }


def test_every_format_is_under_contract(models):
    assert set(WRITERS) == set(FORMATS)
    assert {name: set(model) for name, model in models.items()} == {
        "blip_original": {"image", "text"},
        "cav_mae": {"audio", "video"},
        "sprc": {"image+text", "image"},
    }


@pytest.mark.parametrize(("name", "modality"), GALLERIES, ids=IDS)
class TestEveryQuerySide:
    @pytest.fixture
    def encoder(self, models, name, modality):
        return models[name][modality]

    @pytest.fixture
    def batch(self, queries, modality):
        return queries[modality]

    @pytest.mark.parametrize("how", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
    def test_a_copy_is_another_encoder_that_does_the_same(self, how, encoder, batch):
        twin, shared = how(encoder), encoder.ready(batch)
        moved = {name: 1.1 * value for name, value in encoder.norm_params().items()}
        expected = encoder.through(moved, shared)
        assert torch.equal(twin.through(moved, twin.ready(batch)), expected)
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.zero_()
        assert torch.equal(encoder.through(moved, shared), expected)

    def test_gives_unit_vectors_whatever_else_is_in_the_batch(self, encoder, batch):
        together = encoder.encode(batch)
        assert torch.allclose(together.norm(dim=-1), torch.ones(COUNT), atol=1e-5)
        assert torch.equal(together, encoder.encode(batch))
        alone = torch.cat([encoder.encode([item]) for item in batch])
        assert torch.allclose(together, alone, atol=1e-5)
        assert (together[0] - together[1]).abs().max() > 1e-3

    def test_seen_through_its_own_parameters_is_itself(self, encoder, batch):
        found = encoder.through(encoder.norm_params(), encoder.ready(batch))
        assert torch.allclose(found, encoder.encode(batch), atol=1e-6)
        assert torch.allclose(found, encoder(encoder.prepare(batch)), atol=1e-6)

    def test_gives_the_same_in_four_threads(self, encoder, batch):
        source, shared = encoder.norm_params(), encoder.ready(batch)
        moved = [{n: v * (1 + 0.01 * k) for n, v in source.items()} for k in range(4)]
        alone = [encoder.through(params, shared) for params in moved]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda k: encoder.through(moved[k % 4], shared), range(16)))
        assert all(torch.equal(found[k], alone[k % 4]) for k in range(16))

    def test_half_precision_keeps_parameters_whole(self, paths, encoder, batch, name, modality):
        half = qs.load(paths[name], precision="bfloat16")[modality]
        found = half.through(half.norm_params(), half.ready(batch))
        assert found.dtype == torch.float32
        assert (found * encoder.encode(batch)).sum(-1).min() > 0.98

    def test_moves_to_a_device(self, paths, batch, name, modality):
        encoder = qs.load(paths[name], device="meta")[modality]
        tensors = [*encoder.parameters(), *encoder.buffers(), *encoder.ready(batch).values()]
        assert {tensor.device.type for tensor in tensors} == {"meta"}

    @pytest.mark.gpu
    def test_agrees_on_cuda(self, paths, encoder, batch, name, modality):
        expected = encoder.encode(batch)
        same = qs.load(paths[name], device="cuda", precision="float32")[modality]
        fast = qs.load(paths[name], device="cuda")[modality]
        assert torch.allclose(same.encode(batch).cpu(), expected, atol=1e-3)
        assert (fast.encode(batch).cpu() * expected).sum(-1).min() > 0.98

    def test_a_session_adapts_to_it(self, models, queries, batch, name, modality):
        other = GALLERIES[name, modality]
        gallery = qs.Gallery.build(models[name][other], queries[other])
        before = gallery.vectors.clone()
        session = qs.Session(models[name][modality], gallery, qs.REST(), chunk=2, guard=None)
        first, again = session.answer(batch).top(3), session.answer(batch).top(3)
        assert first.positions.shape == (COUNT, 3)
        assert not torch.equal(first.scores, again.scores)
        assert torch.equal(gallery.vectors, before)


@pytest.mark.parametrize(("name", "modality"), list(GALLERIES)[:4], ids=IDS[:4])
def test_the_last_blocks_adapt_alone(paths, models, queries, name, modality):
    cut = qs.load(paths[name], adapt={modality: "last:1"})[modality]
    assert 0 < len(cut.norm_params()) < len(models[name][modality].norm_params())
    found = cut.through(cut.norm_params(), cut.ready(queries[modality]))
    assert torch.allclose(found, models[name][modality].encode(queries[modality]), atol=1e-5)


def test_composed_queries_name_no_blocks(paths):
    with pytest.raises(qs.Error, match="names its blocks"):
        qs.load(paths["sprc"], adapt={"image+text": "last:1"})
