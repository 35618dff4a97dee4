"""Encoders: seen through any parameters, never changed."""

import threading

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

from miniature import ITEM, NoNorms, SharedToy, Toy, items, same
from queryshift import REST, SAR, Encoder, Frozen, Gallery, Session, Tent
from queryshift.errors import BadInput, CannotAdapt

REACHED = {"first.1.weight", "first.1.bias", "second.1.weight", "second.1.bias", "last.0.weight"}


def moved(params, by=0.3):
    draw = torch.Generator().manual_seed(3)
    return {n: p + by * torch.randn(p.shape, generator=draw).to(p) for n, p in params.items()}


def _with_weight(module):
    nn.Module.__init__(module)
    module.weight = nn.Parameter(torch.ones(3))


class TestNormParameters:
    def test_are_those_of_every_norm_layer(self, encoder):
        assert set(encoder.norm_params()) == REACHED | {"spare.weight", "spare.bias"}

    def test_can_be_named(self):
        assert set(SharedToy().norm_params()) == {
            "second.1.weight",
            "second.1.bias",
            "last.0.weight",
        }

    def test_are_copies_in_full_precision(self):
        for own, wide in (
            (torch.bfloat16, torch.float32),
            (torch.float16, torch.float32),
            (torch.float64, torch.float64),
        ):
            toy = Toy(dtype=own)
            params = toy.norm_params()
            assert {value.dtype for value in params.values()} == {wide}
            params["last.0.weight"].zero_()
            assert toy.last[0].weight.min() == 1

    def test_an_encoder_without_any_says_so(self):
        with pytest.raises(CannotAdapt, match=r"NoNorms has no LayerNorm.*use the method Frozen"):
            NoNorms().norm_params()

    def test_every_kind_of_norm_layer_counts_if_it_has_weights(self):
        class Kinds(NoNorms):
            def __init__(self):
                super().__init__()
                self.group, self.batch = nn.GroupNorm(2, 4), nn.BatchNorm1d(4)
                self.bare = nn.LayerNorm(4, elementwise_affine=False)

        assert {name.split(".")[0] for name in Kinds().norm_params()} == {"group", "batch"}

    @pytest.mark.parametrize("name", ["T5LayerNorm", "LlamaRMSNorm", "RmsNorm", "Layernorm"])
    def test_so_does_one_that_is_only_called_so(self, name):
        made = type(name, (nn.Module,), {"__init__": _with_weight})
        toy = NoNorms()
        toy.own = made()
        assert list(toy.norm_params()) == ["own.weight"]


class TestThrough:
    @pytest.mark.parametrize("kind", [Toy, SharedToy])
    def test_the_source_parameters_give_the_plain_forward(self, kind, clean):
        toy = kind()
        shared = toy.ready(clean)
        plain = toy.eval()(toy.prepare(clean))
        assert torch.equal(toy.through(toy.norm_params(), shared), plain)
        assert torch.equal(toy.encode(clean), plain)

    def test_other_parameters_give_what_a_changed_copy_gives(self, clean):
        toy, changed = Toy(dtype=torch.float64), Toy(dtype=torch.float64)
        params = moved(toy.norm_params())
        changed.load_state_dict({**changed.state_dict(), **params})
        assert torch.equal(toy.through(params, toy.ready(clean)), changed(changed.prepare(clean)))

    def test_leaves_the_encoder_as_it_was(self, clean):
        toy = Toy()
        before = {name: value.clone() for name, value in toy.state_dict().items()}
        toy.train()
        toy.through(moved(toy.norm_params()), toy.ready(clean))
        assert toy.training
        assert all(torch.equal(value, before[name]) for name, value in toy.state_dict().items())
        assert all(p.requires_grad and p.grad is None for p in toy.parameters())

    def test_gradients_reach_the_parameters_on_the_way_only(self, encoder, clean):
        params = {n: p.requires_grad_() for n, p in encoder.norm_params().items()}
        encoder.through(params, encoder.ready(clean)).sum().backward()
        assert {name for name, value in params.items() if value.grad is not None} == REACHED

    def test_is_in_eval_mode(self, clean):
        class Dropping(Toy):
            def __init__(self):
                super().__init__()
                self.drop, self.batch = nn.Dropout(0.5), nn.BatchNorm1d(16)

            def forward(self, prepared):
                return self.finish_from(self.drop(self.batch(self.first(prepared))))

        toy = Dropping().train()
        assert torch.equal(toy.encode(clean), toy.encode(clean))
        toy.through(moved(toy.norm_params()), toy.ready(clean))
        assert int(toy.batch.num_batches_tracked) == 0

    def test_small_changes_survive_in_a_half_precision_encoder(self, clean):
        toy = Toy(dtype=torch.bfloat16)
        params = toy.norm_params()
        nearby = {name: value * 1.002 for name, value in params.items()}
        shared = toy.ready(clean)
        assert not torch.equal(toy.through(nearby, shared), toy.through(params, shared))
        assert toy.through(params, shared).dtype == torch.float32

    def test_a_cast_encoder_is_seen_anew(self, clean):
        toy = Toy()
        assert toy.encode(clean).dtype == torch.float32
        assert toy.double().encode(clean).dtype == torch.float64

    def test_what_cannot_change_is_run_once_and_without_a_graph(self, clean, count):
        shared = SharedToy().ready(clean)
        assert (count.shared, count.forwards, shared.requires_grad) == (1, 0, False)


class _Detached(Toy):
    def forward(self, prepared):
        return super().forward(prepared).detach()


class _WithoutGraph(Toy):
    @torch.no_grad()
    def forward(self, prepared):
        return super().forward(prepared)


class _Beside(Toy):
    """Its forward runs a model that no module of it holds."""

    def __init__(self):
        super().__init__()
        self.models = [Toy()]

    def forward(self, prepared):
        return self.models[0].forward(prepared)


class _ByFunction(Toy):
    """Its forward calls the modules themselves, not this thread's copy of them."""

    def __init__(self):
        super().__init__()
        self.run = super().forward

    def forward(self, prepared):
        return self.run(prepared)


class _Spare(Toy):
    norm_names = ("spare",)


class TestVectorsThatNothingCanChange:
    @pytest.mark.parametrize("kind", [_Detached, _WithoutGraph, _Beside, _ByFunction, _Spare])
    @pytest.mark.parametrize("chunk", [None, 5])
    @pytest.mark.parametrize(
        "method", [REST(decouple=True), Tent(), SAR(reset_below=None)], ids=["rest", "tent", "sar"]
    )
    def test_are_refused_with_the_likely_reasons(self, kind, chunk, method, gallery, batches):
        session = Session(kind(), gallery, method, chunk=chunk)
        with pytest.raises(CannotAdapt, match=rf"vectors of {kind.__name__} do not depend.*detach"):
            session.answer(batches[0])
        assert session.state.batches == 0

    def test_are_answered_with_where_nothing_is_to_change(self, gallery, batches):
        assert len(Session(_Detached(), gallery, Frozen()).answer(batches[0]).top(2)) == 12


class TestVectorsThatAreNotOneForEachItem:
    @pytest.mark.parametrize(
        "change", [lambda v: v[:2], lambda v: torch.cat((v, v)), lambda v: v[0], lambda v: v.sum()]
    )
    @pytest.mark.parametrize("adapt", [True, False])
    def test_are_refused(self, change, adapt, gallery, batches):
        """Answers for some of the queries would be taken for those of others."""

        class Odd(Toy):
            def forward(self, prepared):
                return change(super().forward(prepared))

        session = Session(Odd(), gallery, Tent())
        with pytest.raises(BadInput, match=r"Odd gave vectors of shape .* for 12 items, expected"):
            session.answer(batches[0], adapt=adapt)
        with pytest.raises(BadInput, match=r"Odd gave vectors of shape .* for 3 items, expected"):
            Gallery.build(Odd(), items(3))
        assert session.history == []

    def test_are_refused_for_one_item_too(self, gallery):
        class Squeezed(Toy):
            def forward(self, prepared):
                return super().forward(prepared).squeeze()

        with pytest.raises(BadInput, match=r"shape \(8,\) for 1 items, expected a row for each"):
            Session(Squeezed(), gallery, Tent()).answer(items(1))


def test_vectors_that_are_no_tensor(gallery, batches):
    class AsNumpy(Toy):
        def forward(self, prepared):
            return super().forward(prepared).detach().numpy()

    with pytest.raises(BadInput, match="AsNumpy gave a ndarray, expected a torch tensor"):
        Session(AsNumpy(), gallery, REST()).answer(batches[0])


class _Locked(nn.LayerNorm):
    def __init__(self):
        super().__init__(16)
        self.turns = threading.Lock()


class TestWhatCannotBeCopied:
    """Each thread has a copy of the modules; a lock, a file or a connection is shared by all."""

    @pytest.mark.parametrize("name", ["lock", "_lock"])
    def test_may_be_held_by_an_encoder(self, name, gallery, batches):
        toy = Toy()
        setattr(toy, name, threading.Lock())
        session = Session(toy, gallery, REST())
        session.answer(batches[0])
        assert session.state.adapted.updates == 3
        assert getattr(toy.replica().module, name) is getattr(toy, name)

    def test_may_be_held_by_its_modules(self, gallery, batches):
        toy, plain = Toy(), Toy()
        toy.spare = _Locked()
        answers = [Session(one, gallery, REST()).answer(batches[0]).top(5) for one in (toy, plain)]
        assert same(*answers)
        assert toy.replica().module.spare is not toy.spare
        assert toy.replica().module.spare.turns is toy.spare.turns


def test_many_threads_see_through_parameters_of_their_own(clean):
    toy = Toy()
    shared = toy.ready(clean)
    sets = [moved(toy.norm_params(), by) for by in (0.1, 0.2, 0.3, 0.4)]
    alone = [toy.through(params, shared) for params in sets]
    wrong = []

    def look(number):
        for _ in range(40):
            if not torch.equal(toy.through(sets[number], shared), alone[number]):
                wrong.append(number)

    threads = [threading.Thread(target=look, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("part", ["", "first", "mean"])
def test_weights_that_are_replaced_after_the_first_use_are_seen(clean, part):
    toy, other = (_Centred(seed) for seed in (0, 1))
    toy.encode(clean)
    if part == "mean":
        toy.mean = other.mean
    else:
        whole = other.get_submodule(part).state_dict()
        toy.get_submodule(part).load_state_dict(whole, assign=True)
    fresh = _Centred(0)
    fresh.load_state_dict(toy.state_dict())
    assert torch.equal(toy.encode(clean), fresh.encode(clean))
    assert not torch.equal(toy.encode(clean), _Centred(0).encode(clean))


def test_a_replica_is_kept_while_nothing_is_replaced(clean):
    toy = Toy()
    toy.encode(clean)
    replica = toy.replica()
    toy.load_state_dict(Toy(seed=1).state_dict())  # in place
    assert torch.equal(toy.encode(clean), Toy(seed=1).encode(clean))
    assert toy.replica() is replica


class _Centred(Toy):
    """A mean is taken off the items; it is a buffer."""

    def __init__(self, seed):
        super().__init__(seed=seed)
        self.register_buffer("mean", torch.full((ITEM,), 0.1 * seed))

    def forward(self, prepared):
        return super().forward(prepared - self.mean)


class TestFingerprint:
    def test_is_of_the_weights(self):
        assert Toy().fingerprint() == Toy().fingerprint()
        assert Toy().fingerprint() != Toy(seed=1).fingerprint()

    def test_sees_one_changed_norm_layer(self):
        toy = Toy()
        with torch.no_grad():
            toy.last[0].weight[3] += 1e-3
        assert toy.fingerprint() != Toy().fingerprint()


class TestItems:
    def test_mappings_and_tuples_of_tensors_are_taken(self, clean):
        class Tokens(Encoder):
            def __init__(self):
                super().__init__()
                self.norm = nn.LayerNorm(ITEM)

            def prepare(self, found):
                rows = torch.stack(list(found))
                return {"values": rows, "mask": torch.ones(len(rows), dtype=torch.long)}

            def forward(self, prepared):
                return normalize(self.norm(prepared["values"] * prepared["mask"][:, None]), dim=1)

        assert Tokens().encode(clean[:4]).shape == (4, ITEM)

    def test_a_tensor_with_another_first_axis_is_refused(self):
        class Flat(Toy):
            def prepare(self, found):
                return super().prepare(found).reshape(-1, ITEM // 2)

        with pytest.raises(BadInput, match="a tensor of 6 rows for 3 items"):
            Flat().encode(items(3))

    @pytest.mark.parametrize(
        ("make", "text"),
        [
            (lambda rows: rows.numpy(), "a ndarray, expected a tensor, or a mapping or tuple"),
            (lambda rows: None, "a NoneType, expected a tensor"),
            (lambda rows: {"rows": rows, "name": "these"}, "a str, expected a tensor"),
            (lambda rows: {"rows": {"deep": rows}}, "a dict, expected a tensor"),
            (lambda rows: (rows, None), "a NoneType, expected a tensor"),
            (lambda rows: {"rows": rows, "scale": torch.tensor(1.0)}, "of no rows for 3 items"),
        ],
    )
    def test_what_is_no_batch_of_tensors_is_refused(self, make, text):
        class Odd(Toy):
            def prepare(self, found):
                return make(super().prepare(found))

        with pytest.raises(BadInput, match=rf"prepare\(\) gave .*{text}"):
            Odd().encode(items(3))

    def test_no_items_and_items_that_are_not_finite_are_refused(self, encoder):
        with pytest.raises(BadInput, match="empty batch"):
            encoder.encode([])
        spoilt = items(4)
        spoilt[2][0] = torch.nan
        with pytest.raises(BadInput, match=r"item 2 holds NaN.*\(1 of 4 do\)"):
            encoder.encode(spoilt)


class _Batchwise(Encoder):
    """A batch norm with running statistics, in half precision."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16)

    def prepare(self, items):
        return torch.stack(list(items)).bfloat16()

    def forward(self, rows):
        return torch.nn.functional.normalize(self.norm(self.first(rows)), dim=1)


def test_batch_norm_works_in_half_precision():
    encoder = _Batchwise().bfloat16()
    rows = list(torch.randn(4, 8))
    seen = encoder.through(encoder.norm_params(), encoder.ready(rows))
    assert torch.equal(seen, encoder.encode(rows).float())


class _Together(Toy):
    """A batch norm that takes the statistics of whatever batch it sees."""

    def __init__(self):
        super().__init__()
        self.first[1] = torch.nn.BatchNorm1d(16, track_running_stats=False)


def test_batch_norm_without_statistics_sees_whole_batches_only(clean, gallery):
    encoder = _Together()
    for chunk in (None, 8):
        Session(encoder, gallery, Tent(), chunk=chunk).answer(clean[:8])
    with pytest.raises(CannotAdapt, match=r"first\.1 of _Together is a BatchNorm.* chunk out"):
        Session(encoder, gallery, Tent(), chunk=5).answer(clean[:8])


class _Tied(Toy):
    """Two norm layers that share one gain."""

    def __init__(self):
        super().__init__()
        self.second[1].weight = self.first[1].weight


def test_a_value_stands_in_wherever_its_parameter_is_shared(clean):
    tied, apart = _Tied(), Toy()
    doubled = 2 * tied.first[1].weight.detach()
    shared = tied.ready(clean[:4])
    expected = apart.through({"first.1.weight": doubled, "second.1.weight": doubled}, shared)
    for name in ("first.1.weight", "second.1.weight"):
        assert torch.equal(tied.through({name: doubled}, shared), expected)
    assert torch.equal(tied.through({}, shared), apart.through({}, shared))  # and goes again
