"""A module that never changes, and can be seen through other norm parameters from any thread."""

from __future__ import annotations

import copy
import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from queryshift.errors import CannotAdapt
from queryshift.support.lazy import lazy_property
from queryshift.support.torch_modes import retain_compiled_graphs

from .norms import accept_override, sees_the_batch
from .norms import is_norm as is_norm

Params: TypeAlias = dict[str, Tensor]
Held: TypeAlias = tuple[
    dict[str, Any], str, Tensor | None
]  # a module's tensors, one of their names

_shells = threading.local()


class FrozenModule(nn.Module):
    """What encoders and matchers have in common: norm parameters that others may stand in for."""

    norm_names: Sequence[str] | None = None
    """Names of the norm modules that adapt; None means every one there is."""

    def __init__(self) -> None:
        super().__init__()
        self._generation = 0

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        first = next(self.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    @lazy_property
    def parameter_names(self) -> frozenset[str]:
        """Names of all parameters: not asked of the modules anew for every batch."""
        return frozenset(name for name, _ in self.named_parameters())

    @lazy_property
    def batch_layer(self) -> str | None:
        """Name of a layer that lets a result depend on what else is in the batch, if any."""
        return next((name for name, part in self.named_modules() if sees_the_batch(part)), None)

    def norm_params(self) -> Params:
        """The source values of the parameters that adapt, in float32 (or float64)."""
        if any(parameter.is_inference() for parameter in self.parameters()):
            raise CannotAdapt(
                f"{type(self).__name__} was made under torch.inference_mode(), where nothing can "
                "have a gradient: load the model outside of it, or use the method Frozen."
            )
        found = {
            f"{name}.{part}": _full(value)
            for name, module in self.named_modules()
            if is_norm(module) and (self.norm_names is None or name in self.norm_names)
            for part, value in module.named_parameters(recurse=False)
        }
        if not found:
            raise CannotAdapt(
                f"{type(self).__name__} has no LayerNorm, RMSNorm, GroupNorm or BatchNorm with "
                "weights among the modules that may adapt: use the method Frozen, or TSA or "
                "TCRUntrained, which need none, or name the layers in `norm_names`."
            )
        return found

    def fingerprint(self) -> str:
        """A short hash of the weights (a sample of each tensor), the same wherever they lie."""
        digest = hashlib.blake2b(digest_size=16)
        for name, tensor in self.state_dict().items():
            digest.update(f"{name}{tuple(tensor.shape)}".encode())
            flat = tensor.detach().reshape(-1)
            sample = flat[:: max(1, len(flat) // 256)][:256]
            digest.update(sample.to("cpu", torch.float64).numpy().tobytes())
        return digest.hexdigest()

    def run_with(self, params: Params, method: str, *inputs: Any) -> Any:
        """A method's result with `params` in the place of our own: the one place this happens."""
        shell = self.shell()
        with shell.seeing(params), retain_compiled_graphs():
            return shell(method, *inputs)

    def shell(self) -> Shell:
        """This thread's own copy of the modules, sharing all storage: swapping needs no lock."""
        mine: WeakKeyDictionary[FrozenModule, tuple[int, Shell]]
        mine = _shells.__dict__.setdefault("of", WeakKeyDictionary())
        generation, shell = mine.get(self, (-1, None))
        if shell is None or generation != self._generation:
            held = _held(self)  # before they are copied: what is replaced meanwhile is noticed
            shell = Shell(_twin(self), held)
            mine[self] = (self._generation, shell)
        return shell

    def renew(self) -> None:
        """Notice tensors that were replaced, as `load_state_dict(assign=True)` does."""
        if any(place.get(name) is not value for place, name, value in self.shell().copied):
            self._generation += 1

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        self._generation += 1  # moved or cast: shells made before are stale
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


class Shell:
    """A copy of a module whose parameters others stand in for while one of its methods runs.

    Where each parameter lies is found out once: torch's own `functional_call` looks for it in
    every call, which takes longer than a small batch's work.
    """

    def __init__(self, module: FrozenModule, copied: Sequence[Held]) -> None:
        self.module, self.copied = module, copied
        places: dict[int, list[tuple[dict[str, Any], str]]] = {}  # a shared parameter has several
        for part in module.modules():
            for name, value in part._parameters.items():
                places.setdefault(id(value), []).append((part._parameters, name))
        named = module.named_parameters(remove_duplicate=False)
        self._places = {name: places[id(value)] for name, value in named}

    def __call__(self, method: str, *inputs: Any) -> Any:
        """The method's result."""
        return getattr(self.module, method)(*inputs)

    @contextmanager
    def seeing(self, params: Params) -> Iterator[None]:
        """Let `params` stand in for our own."""
        there = [(*at, value) for key, value in params.items() for at in self._places[key]]
        before = [(place, name, place[name]) for place, name, _ in there]
        try:
            for place, name, value in there:
                place[name] = value
            yield
        finally:
            for place, name, own in before:
                place[name] = own


def _held(module: nn.Module) -> list[Held]:
    """Every parameter and buffer where its module holds it."""
    places = [place for part in module.modules() for place in (part._parameters, part._buffers)]
    return [(place, name, value) for place in places for name, value in place.items()]


def _full(value: Tensor) -> Tensor:
    """Float32 at least: a gain of 1.0027 in bfloat16 is 1, and adaptation would vanish."""
    wide = torch.float64 if value.dtype == torch.float64 else torch.float32
    return value.detach().to(wide, copy=True)


@torch.inference_mode(False)  # made once for the thread, whatever its first caller does
def _twin(module: FrozenModule) -> FrozenModule:
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
        twin = copy.deepcopy(module, dict(memo)).eval()
    except TypeError:  # a lock, a file, a connection in some module
        twin = copy.deepcopy(module, _with_uncopyable(module, memo)).eval()
    for part in twin.modules():
        if is_norm(part):
            accept_override(part)
    return twin


def _with_uncopyable(module: nn.Module, memo: dict[int, Any]) -> dict[int, Any]:
    """The memo with all attributes of modules that cannot be copied: they are shared."""
    own = vars(nn.Module()).keys()  # where a module keeps its parts
    values = [v for part in module.modules() for n, v in vars(part).items() if n not in own]
    shared = dict(memo)
    for value in values:
        try:
            copy.deepcopy(value, dict(memo))
        except TypeError:
            shared[id(value)] = value
    return shared
