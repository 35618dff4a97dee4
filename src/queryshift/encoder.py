"""An encoder turns items of one modality into unit vectors, seen through any norm parameters."""

from __future__ import annotations

import copy
import hashlib
import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias, cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from .errors import BadInput, CannotAdapt
from .prepared import Prepared, check, move

Params: TypeAlias = dict[str, Tensor]

_NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, _BatchNorm)
_shells = threading.local()


class Encoder(nn.Module):
    """Items of one modality to unit vectors. It never changes: a session looks *through* it.

    Write `prepare` and `forward`. An encoder whose first part no adapted parameter can change
    may also write `shared` (that part, run once per batch) and `finish` (the rest).
    """

    recommended: ClassVar[Mapping[str, Mapping[str, float]]] = {}
    """Learning rate and temperature per method name, or "*" for all of them."""

    norm_names: Sequence[str] | None = None
    """Names of the norm modules that adapt; None means every one there is."""

    def __init__(self) -> None:
        super().__init__()
        self._generation = 0

    @abstractmethod
    def prepare(self, items: Sequence[Any]) -> Prepared:
        """Tensors for a list of items; the first axis is the items."""

    @abstractmethod
    def forward(self, prepared: Any) -> Tensor:
        """Unit vectors (B, D); a gallery encoder may give several per item, (B, V, D)."""

    def shared(self, prepared: Any) -> Any:
        """What adapted parameters cannot change, computed once per batch and without a graph."""
        return prepared

    def finish(self, shared: Any) -> Tensor:
        """Unit vectors from what `shared` gave; `finish(shared(x))` equals `forward(x)`."""
        found: Tensor = self.forward(shared)
        return found

    @property
    def device(self) -> torch.device:
        """Where the encoder computes."""
        first = next(self.parameters(), None)
        return torch.device("cpu") if first is None else first.device

    def norm_params(self) -> Params:
        """The source values of the parameters that adapt, in float32 (or float64)."""
        found = {
            f"{name}.{part}": _full(value)
            for name, module in self.named_modules()
            if is_norm(module) and (self.norm_names is None or name in self.norm_names)
            for part, value in module.named_parameters(recurse=False)
        }
        if not found:
            raise CannotAdapt(
                f"{type(self).__name__} has no LayerNorm, RMSNorm, GroupNorm or BatchNorm with "
                "weights among the modules that may adapt: use the method Frozen, or name the "
                "layers in `norm_names`."
            )
        return found

    def through(self, params: Params, shared: Any) -> Tensor:
        """Unit vectors seen through `params`: the one place where they stand in for our own."""
        stand_ins = {f"encoder.{name}": value for name, value in params.items()}
        vectors: Tensor = functional_call(self._shell(), stand_ins, (shared,))
        return vectors if vectors.dtype == torch.float64 else vectors.float()

    def ready(self, items: Sequence[Any]) -> Any:
        """The shared part of a batch of items, checked and on the encoder's device."""
        items = list(items)
        if not items:
            raise BadInput("got an empty batch, expected at least one item.")
        prepared = self.prepare(items)
        check(prepared, len(items))
        with torch.no_grad():
            return self._shell().encoder.shared(move(prepared, self.device))

    @torch.no_grad()
    def encode(self, items: Sequence[Any]) -> Tensor:
        """Unit vectors of items with the source parameters, in the encoder's own precision."""
        vectors: Tensor = self._shell()(self.ready(items))
        return vectors

    def fingerprint(self) -> str:
        """A short hash of the weights (a sample of each tensor), the same wherever they lie."""
        digest = hashlib.blake2b(digest_size=16)
        for name, tensor in self.state_dict().items():
            digest.update(f"{name}{tuple(tensor.shape)}".encode())
            flat = tensor.detach().reshape(-1)
            sample = flat[:: max(1, len(flat) // 256)][:256]
            digest.update(sample.to("cpu", torch.float64).numpy().tobytes())
        return digest.hexdigest()

    def _shell(self) -> _Shell:
        """This thread's own copy of the modules, sharing all storage: swapping needs no lock."""
        mine: WeakKeyDictionary[Encoder, tuple[int, _Shell]]
        mine = _shells.__dict__.setdefault("of", WeakKeyDictionary())
        generation, shell = mine.get(self, (-1, None))
        if shell is None or generation != self._generation:
            shell = _Shell(_twin(self))
            mine[self] = (self._generation, shell)
        return shell

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        self._generation += 1  # moved or cast: shells made before are stale
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


class _Shell(nn.Module):
    """Calls `finish` where `functional_call` can only call `forward`."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, shared: Any) -> Tensor:
        return self.encoder.finish(shared)


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a norm layer with weights of its own."""
    named_so = type(module).__name__.endswith(("LayerNorm", "RMSNorm"))
    weight = module._parameters.get("weight")
    return (isinstance(module, _NORMS) or named_so) and weight is not None


def _full(value: Tensor) -> Tensor:
    """Float32 at least: a gain of 1.0027 in bfloat16 is 1, and adaptation would vanish."""
    wide = torch.float64 if value.dtype == torch.float64 else torch.float32
    return value.detach().to(wide, copy=True)


def _twin(encoder: Encoder) -> Encoder:
    """A copy in eval mode that shares every tensor and everything that is not a module."""
    memo: dict[int, Any] = {
        id(value): value for name, value in vars(encoder).items() if not name.startswith("_")
    }
    for parameter in encoder.parameters():
        memo[id(parameter)] = nn.Parameter(parameter.detach(), requires_grad=False)
    for buffer in encoder.buffers():
        memo[id(buffer)] = buffer
    twin = copy.deepcopy(encoder, memo).eval()
    for module in twin.modules():
        if is_norm(module):
            _compute_in_full_precision(module)
    return twin


def _compute_in_full_precision(norm: nn.Module) -> None:
    """Let a norm layer work in the precision of the weights that stand in for its own."""
    plain = norm.forward

    def forward(values: Tensor) -> Tensor:
        wide = cast(Tensor, norm.weight).dtype
        normalised: Tensor = plain(values.to(wide))
        return normalised.to(values.dtype)

    norm.forward = forward
