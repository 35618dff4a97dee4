"""A module that never changes, and runs with overridden norm parameters in any thread."""

from __future__ import annotations

import copy
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeAlias, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, group_norm, layer_norm, rms_norm
from torch.nn.modules.batchnorm import _BatchNorm

from queryshift.errors import CannotAdapt
from queryshift.support.priority import this_thread, yield_to_answers
from queryshift.support.threads import lazy_property, one_torch_thread_after_forks
from queryshift.support.torch_modes import retain_compiled_graphs

from .adapted_parameters import NORMS, Params, is_norm, norm_params

Slot: TypeAlias = tuple[dict[str, Any], str, Tensor | None]  # a module's tensors, a name, its value


class FrozenModule(nn.Module):
    """What encoders and matchers have in common: norm parameters that a caller may override."""

    norm_names: Sequence[str] | None = None
    """Names of the norm modules that adapt; None means every one there is."""

    def __init__(self) -> None:
        super().__init__()
        self._generation = 0
        one_torch_thread_after_forks()

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        first = next(self.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    @lazy_property
    def parameter_names(self) -> frozenset[str]:
        """The names of all parameters, computed once."""
        return frozenset(name for name, _ in self.named_parameters())

    @lazy_property
    def batch_layer(self) -> str | None:
        """The name of a layer that makes results depend on the rest of the batch, if any."""
        return next((name for name, part in self.named_modules() if sees_the_batch(part)), None)

    def norm_params(self) -> Params:
        """The source values of the parameters that adapt, in float32 (or float64)."""
        return norm_params(self)

    def adapt_only(self, names: Sequence[str]) -> None:
        """Let only the norm layers of these names adapt."""
        self.norm_names = names

    def fingerprint(self) -> str:
        """A short hash of the weights (a sample of each tensor), the same on every device."""
        digest = hashlib.blake2b(digest_size=16)
        for name, tensor in self.state_dict().items():
            digest.update(f"{name}{tuple(tensor.shape)}".encode())
            flat = tensor.detach().reshape(-1)
            sample = flat[:: max(1, len(flat) // 256)][:256]
            digest.update(sample.to("cpu", torch.float64).numpy().tobytes())
        return digest.hexdigest()

    def run_with_params(self, params: Params, method: str, *inputs: Any) -> Any:
        """Call a method with parameters overridden; nothing else overrides them."""
        replica = self.replica()
        with replica.override(params), retain_compiled_graphs():
            return replica(method, *inputs)

    def replica(self) -> Replica:
        """This thread's own copy of the modules, sharing all storage: overriding needs no lock."""
        generation, replica = _this_thread.replicas.get(self, (-1, None))
        if replica is None or generation != self._generation:
            replica = Replica(self)
            _this_thread.replicas[self] = (self._generation, replica)
        return replica

    def notice_replaced_tensors(self) -> None:
        """Renew replicas if tensors were replaced, as by `load_state_dict(assign=True)`."""
        if self.replica().is_stale():
            self._generation += 1

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        self._generation += 1  # moved or cast: replicas made before are stale
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


class Replica:
    """A copy of a module, in eval mode and on the same storage, whose parameters can be overridden.

    Each parameter's place is looked up once: torch's `functional_call` does so in every call,
    which takes longer than a small batch.
    """

    def __init__(self, module: FrozenModule) -> None:
        self._originals = _slots(module)  # before the copy, to notice tensors replaced meanwhile
        self.module = _copy_on_same_storage(module)
        places: dict[int, list[tuple[dict[str, Any], str]]] = {}  # a shared parameter has several
        for part in self.module.modules():
            for name, value in part._parameters.items():
                places.setdefault(id(value), []).append((part._parameters, name))
        named = self.module.named_parameters(remove_duplicate=False)
        self._places = {name: places[id(value)] for name, value in named}

    def __call__(self, method: str, *inputs: Any) -> Any:
        """The method's result."""
        return getattr(self.module, method)(*inputs)

    @contextmanager
    def override(self, params: Params) -> Iterator[None]:
        """While this lasts, `params` take the place of our own parameters."""
        new = [(*place, value) for key, value in params.items() for place in self._places[key]]
        source = [(tensors, name, tensors[name]) for tensors, name, _ in new]
        try:
            for tensors, name, value in new:
                tensors[name] = value
            yield
        finally:
            for tensors, name, value in source:
                tensors[name] = value

    def is_stale(self) -> bool:
        """Whether a tensor of the module has been replaced by another since it was copied."""
        return any(tensors.get(name) is not value for tensors, name, value in self._originals)


class _PerThread(threading.local):
    def __init__(self) -> None:
        self.replicas: WeakKeyDictionary[FrozenModule, tuple[int, Replica]] = WeakKeyDictionary()


_this_thread = _PerThread()


def _slots(module: nn.Module) -> list[Slot]:
    """Every parameter and buffer, with the dictionary and the name it is kept under."""
    kept = [tensors for part in module.modules() for tensors in (part._parameters, part._buffers)]
    return [(tensors, name, value) for tensors in kept for name, value in tensors.items()]


@torch.inference_mode(False)  # made once for the thread, whatever its first caller does
def _copy_on_same_storage(module: FrozenModule) -> FrozenModule:
    """A copy in eval mode that shares every tensor and everything that is not a module."""
    memo: dict[int, Any] = {
        id(value): value
        for part in module.modules()
        if isinstance(part, FrozenModule)  # a matcher may hold encoders
        for name, value in vars(part).items()
        if not name.startswith("_")
    }
    for parameter in module.parameters():
        memo[id(parameter)] = nn.Parameter(parameter.detach(), requires_grad=False)
    for buffer in module.buffers():
        memo[id(buffer)] = buffer
    try:
        replica = copy.deepcopy(module, dict(memo)).eval()
    except TypeError:  # a lock, a file, a connection in some module
        replica = copy.deepcopy(module, _with_uncopyable(module, memo)).eval()
    for part in replica.modules():
        if is_norm(part):
            accept_override(part)
    return replica


def _with_uncopyable(module: nn.Module, memo: dict[int, Any]) -> dict[int, Any]:
    """The memo with attributes that cannot be copied: replicas share them."""
    of_torch = vars(nn.Module()).keys()  # where a module keeps its parts
    values = [v for part in module.modules() for n, v in vars(part).items() if n not in of_torch]
    shared = dict(memo)
    for value in values:
        try:
            copy.deepcopy(value, dict(memo))
        except TypeError:
            shared[id(value)] = value
    return shared


def sees_the_batch(module: nn.Module) -> bool:
    """Whether a module normalises over the batch: BatchNorm without running statistics."""
    return isinstance(module, _BatchNorm) and module.running_mean is None


def accept_override(norm: nn.Module) -> None:
    """Let a norm layer use overriding weights, in their precision."""
    source = cast(Tensor, norm.weight)
    if source.dtype in (torch.float16, torch.bfloat16):
        norm.float()  # its running statistics too
    plain, axes = norm.forward, source.ndim

    def forward(values: Tensor) -> Tensor:
        if not torch.compiler.is_compiling() and this_thread.wait_left > 0:
            yield_to_answers()  # every tower that adapts passes here often
        weight = cast(Tensor, norm.weight)
        wide = values.to(weight.dtype)
        if weight.ndim == axes:
            normalised: Tensor = plain(wide)
        elif isinstance(norm, NORMS):
            normalised = _for_each_item(norm, wide)
        else:
            normalised = _of_another_class(norm, plain, wide)
        return normalised.to(values.dtype)

    norm.forward = forward


def _for_each_item(norm: nn.Module, values: Tensor) -> Tensor:
    """Normalised values (n, ...) under weights (B, ...), where n is a multiple of B."""
    if isinstance(norm, nn.LayerNorm):
        plain = layer_norm(values, norm.normalized_shape, eps=norm.eps)
    elif isinstance(norm, nn.RMSNorm):
        plain = rms_norm(values, norm.normalized_shape, eps=norm.eps)
    elif isinstance(norm, nn.GroupNorm):
        plain = group_norm(values, norm.num_groups, eps=norm.eps)
    else:
        mean, variance = cast(Tensor, norm.running_mean), cast(Tensor, norm.running_var)
        plain = batch_norm(values, mean, variance, eps=cast(float, norm.eps))
    at_end = isinstance(norm, (nn.LayerNorm, nn.RMSNorm))  # others have channels behind the items
    gain = _spread(cast(Tensor, norm.weight), plain, at_end)
    if (bias := getattr(norm, "bias", None)) is None:
        return plain * gain
    return torch.addcmul(_spread(bias, plain, at_end), plain, gain)


def _of_another_class(norm: nn.Module, plain: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """The same for an unknown class of norm layer that is affine in its weights."""
    own = cast("dict[str, Tensor | None]", norm._parameters)
    weights = {name: one for name, one in own.items() if one is not None}

    def at(unit: str | None) -> Tensor:
        for name, one in weights.items():
            own[name] = torch.full_like(one[0], float(name == unit))
        return plain(values)

    try:
        base = total = at(None)
        for name, one in weights.items():
            total = torch.addcmul(total, at(name) - base, _spread(one, values, at_end=True))
    finally:
        own.update(weights)
    return total


def _spread(weights: Tensor, values: Tensor, at_end: bool) -> Tensor:
    """Weights (B, ...) in a shape that multiplies values (n, ...), n // B rows for each item."""
    times, left = divmod(len(values), len(weights))
    if left or times == 0 or values.ndim < weights.ndim:
        raise CannotAdapt(
            f"a norm layer sees values of shape {tuple(values.shape)} for {len(weights)} items: "
            "the items must be the first axis. Answer with each session by itself."
        )
    between = (1,) * (values.ndim - weights.ndim)
    shape = (*between, *weights.shape[1:]) if at_end else (*weights.shape[1:], *between)
    return weights.repeat_interleave(times, dim=0).view(len(values), *shape)
