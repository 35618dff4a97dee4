"""What every loaded model promises, over every class that can be loaded."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from sentence_checkpoints import CHECKPOINTS as SENTENCES
from tiny_checkpoints import CHECKPOINTS

import queryshift as qs
from queryshift.encoders.adapted_parameters import is_norm
from queryshift.models import ARCHITECTURES

SIDES = [
    (architecture, modality)
    for architecture in CHECKPOINTS
    for modality in ("audio" if architecture == "ClapModel" else "image", "text")
] + [(name, "text") for name in SENTENCES]
BLOCKLESS = {("ClapModel", "audio")}


@pytest.fixture(scope="module")
def loaded(checkpoint):
    """Models by class, each loaded once."""
    found = {}

    def model(architecture):
        if architecture not in found:
            found[architecture] = qs.load(checkpoint(architecture))
        return found[architecture]

    return model


def test_every_loadable_class_is_under_contract():
    assert set(CHECKPOINTS) == set(ARCHITECTURES)


def run_with(encoder, params, batch):
    return encoder.through(params, encoder.ready(batch))


def pickled(encoder):
    return pickle.loads(pickle.dumps(encoder))


def gradients(encoder, batch):
    params = {name: value.requires_grad_() for name, value in encoder.norm_params().items()}
    vectors = run_with(encoder, params, batch)
    direction = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(1)).to(vectors)
    return torch.autograd.grad(
        (vectors * direction).sum(), list(params.values()), allow_unused=True
    )


@pytest.mark.parametrize(("architecture", "modality"), SIDES, ids=[f"{a}-{m}" for a, m in SIDES])
class TestEverySide:
    @pytest.fixture()
    def encoder(self, loaded, architecture, modality):
        return loaded(architecture)[modality]

    @pytest.fixture()
    def batch(self, items, modality):
        return items[modality]

    def test_gives_unit_vectors_that_tell_items_apart(self, encoder, batch):
        vectors = encoder.encode(batch)
        assert torch.allclose(vectors.norm(dim=-1), torch.ones(vectors.shape[:-1]), atol=1e-6)
        assert (vectors[0] - vectors[1]).abs().max() > 1e-3

    def test_is_deterministic_and_takes_items_one_by_one(self, encoder, batch):
        together = encoder.encode(batch)
        alone = torch.cat([encoder.encode([item]) for item in batch])
        assert torch.equal(together, encoder.encode(batch))
        assert torch.allclose(together, alone, atol=2e-6)

    def test_is_in_eval_mode(self, encoder):
        assert not any(module.training for module in encoder.modules())

    def test_seen_through_its_own_parameters_is_itself(self, encoder, batch):
        assert torch.equal(run_with(encoder, encoder.norm_params(), batch), encoder.encode(batch))

    @pytest.mark.parametrize("how", [copy.deepcopy, pickled])
    def test_a_copy_is_another_encoder_that_does_the_same(self, how, encoder, batch):
        twin = how(encoder)
        moved = {name: 1.1 * value for name, value in encoder.norm_params().items()}
        expected = run_with(encoder, moved, batch)
        assert torch.equal(run_with(twin, moved, batch), expected)
        assert twin.fingerprint() == encoder.fingerprint()
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.zero_()
        assert torch.equal(run_with(encoder, moved, batch), expected)

    def test_gradient_reaches_every_adapted_parameter(self, encoder, batch):
        for name, gradient in zip(encoder.norm_params(), gradients(encoder, batch), strict=True):
            assert gradient is not None, name
            assert gradient.abs().max() > 0, name

    def test_adapts_every_norm_layer_it_reaches(self, encoder, batch):
        kept_back = ("vision_model.", "tower.audio_encoder.batch_norm")  # by choice
        reached = set()
        hooks = [
            module.register_forward_hook(lambda *_, name=name: reached.add(name))
            for name, module in encoder.named_modules()
            if is_norm(module) and not name.startswith(kept_back)
        ]
        encoder(encoder.prepare(batch))
        for hook in hooks:
            hook.remove()
        assert {name.rpartition(".")[0] for name in encoder.norm_params()} == reached

    def test_works_in_half_precision(self, checkpoint, architecture, modality, batch):
        encoder = qs.load(checkpoint(architecture))[modality]
        full = encoder.encode(batch)
        half = encoder.to(torch.bfloat16)
        seen = run_with(half, half.norm_params(), batch)
        assert half.encode(batch).dtype == torch.bfloat16
        assert seen.dtype == torch.float32
        assert (seen * full).sum(-1).min() > 0.995
        for gradient in gradients(half, batch):
            assert gradient.dtype == torch.float32
            assert gradient.isfinite().all()

    def test_autocast_keeps_weights_and_parameters_whole(
        self, checkpoint, architecture, modality, batch
    ):
        encoder = qs.load(checkpoint(architecture), precision="bfloat16")[modality]
        vectors = encoder.encode(batch)
        assert vectors.dtype == encoder.dtype == torch.float32
        assert torch.allclose(vectors.norm(dim=-1), torch.ones(vectors.shape[:-1]), atol=1e-6)

    def test_moves_to_a_device(self, checkpoint, architecture, modality, batch):
        encoder = qs.load(checkpoint(architecture), device="meta")[modality]
        tensors = [*encoder.parameters(), *encoder.buffers(), *encoder.ready(batch).values()]
        assert {tensor.device.type for tensor in tensors} == {"meta"}

    @pytest.mark.gpu
    def test_agrees_on_cuda(self, checkpoint, architecture, modality, batch):
        full = qs.load(checkpoint(architecture))[modality].encode(batch)
        same = qs.load(checkpoint(architecture), device="cuda", precision="float32")[modality]
        fast = qs.load(checkpoint(architecture), device="cuda")[modality]
        assert torch.allclose(same.encode(batch).cpu(), full, atol=1e-3)
        assert fast.autocast == torch.bfloat16
        assert (fast.encode(batch).cpu() * full).sum(-1).min() > 0.99
        assert all(gradient.abs().max() > 0 for gradient in gradients(fast, batch))

    def test_gives_the_same_bits_in_four_threads(self, encoder, batch):
        source = encoder.norm_params()
        moved = [{n: v * (1 + 0.01 * k) for n, v in source.items()} for k in range(4)]
        alone = [run_with(encoder, params, batch) for params in moved]

        def work(k):
            return [run_with(encoder, moved[k], batch) for _ in range(5)]

        with ThreadPoolExecutor(4) as pool:
            for expected, found in zip(alone, pool.map(work, range(4)), strict=True):
                assert all(torch.equal(expected, vectors) for vectors in found)
        assert not torch.equal(alone[0], alone[1])

    @pytest.mark.parametrize("last", [1, 3])
    def test_the_last_blocks_adapt_alone(self, checkpoint, encoder, batch, last, request):
        architecture, modality = (
            request.node.callspec.params[k] for k in ("architecture", "modality")
        )
        if (architecture, modality) in BLOCKLESS:
            with pytest.raises(qs.Error, match="names its blocks"):
                qs.load(checkpoint(architecture), adapt={modality: f"last:{last}"})
            return
        cut = qs.load(checkpoint(architecture), adapt={modality: f"last:{last}"})[modality]
        names = {name.rpartition(".")[0] for name in cut.norm_params()}
        first = len(cut.blocks) - last
        assert names < {name.rpartition(".")[0] for name in encoder.norm_params()}
        assert {int(n.removeprefix(f"{cut.block_list}.").split(".")[0]) for n in names} == set(
            range(first, len(cut.blocks))
        )
        shared = cut.ready(batch)
        assert not any(tensor.requires_grad for tensor in shared.values())
        assert torch.allclose(cut.finish(shared), cut(cut.prepare(batch)), atol=1e-6)
        assert torch.allclose(cut.encode(batch), encoder.encode(batch), atol=1e-6)
        assert all(gradient.abs().max() > 0 for gradient in gradients(cut, batch))

    @pytest.mark.parametrize("adapt", ["all", "last:3"])
    def test_a_session_adapts_it(self, checkpoint, architecture, modality, items, adapt):
        if (architecture, modality) == ("Blip2ForImageTextRetrieval", "image"):
            pytest.skip("several vectors per picture make a gallery, not a query")
        wish = "all" if (architecture, modality) in BLOCKLESS else adapt
        model = qs.load(checkpoint(architecture), adapt={modality: wish})
        (other,) = set(model) - {modality} or {modality}
        gallery = qs.Gallery.build(model[other], items[other])
        session = qs.Session(model[modality], gallery, qs.REST(), chunk=2, guard=None)
        before = session.answer(items[modality], adapt=False).top(3).scores
        session.answer(items[modality])
        after = session.answer(items[modality], adapt=False).top(3).scores
        assert after.isfinite().all()
        assert not torch.equal(before, after)
