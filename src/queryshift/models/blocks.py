"""Encoders built of stacked blocks: what lies below the first that adapts runs once per batch."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from queryshift.encoders.encoder import Encoder, Params
from queryshift.errors import BadInput
from queryshift.support.torch_modes import without_autocast

from .cuda_graphs import replayed

Module = TypeVar("Module", bound=nn.Module)
BELOW = "below"  # key of the hidden states that enter the first adapted block
HALVES = (torch.bfloat16, torch.float16)
RAW_CHANNELS = 4  # at most, of what no other layer has made
PATCHES = "patch_embedding"  # called so too where images come cut in patches
HIDDEN = "hidden_states"  # what Hugging Face's blocks call their input


class BlockEncoder(Encoder):
    """Set `read` or write `prepare`, and write `embed`; unit length, precision, the cut are here.

    Where something runs before the blocks, such as embedding patches, write `begin` too.
    """

    recommended: Mapping[str, Mapping[str, float]] = {"*": {"lr": 3e-4}}

    read: Callable[[Sequence[Any]], dict[str, Tensor]]
    """Turns items into the mapping of tensors that `begin` and `embed` take."""

    block_list: str | None = None
    """Name of the `nn.ModuleList` that holds the blocks, in the order they run."""

    autocast: torch.dtype | None = None
    """Half precision to compute in, while weights and adapted parameters stay as they are."""

    compiled: bool = False
    """Whether each block goes through `torch.compile`."""

    cuda_graphs: bool = False
    """Whether, on a GPU, forwards of shapes that come again are recorded and played."""

    _cut: FrozenPrefix | None = None

    def prepare(self, items: Sequence[Any]) -> Mapping[str, Tensor]:
        """The items as tensors."""
        return self.read(items)

    @abstractmethod
    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """Vectors (B, D) or (B, V, D) of any length, of what `begin` gave."""

    def begin(self, prepared: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What runs before the blocks, such as embedding patches: once per batch."""
        return prepared

    def forward(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """Unit vectors of a batch."""
        return self._vectors(self.begin(prepared))

    def run_with_params(self, params: Params, method: str, *inputs: Any) -> Any:
        """A method's result with our parameters overridden, from a recording if wanted."""
        if self.compiled:  # compiled graphs need its options before the first run
            import_module("torch._functorch.config")
        run = super().run_with_params
        if not self.cuda_graphs or method != "finish":
            return run(params, method, *inputs)
        return replayed(self.replica(), lambda p, shared: run(p, method, shared), params, *inputs)

    def shared(self, prepared: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The batch as it was begun, with the hidden states below the first adapted block."""
        begun = self.begin(prepared)
        if self._cut is None:
            return begun
        return {**begun, BELOW: self._cut.below(lambda: self._vectors(begun))}

    def finish(self, shared: Mapping[str, Tensor]) -> Tensor:
        """Unit vectors, from those hidden states on."""
        if self._cut is None:
            return self._vectors(shared)
        begun = {name: tensor for name, tensor in shared.items() if name != BELOW}
        return self._cut.above(lambda: self._vectors(begun), shared[BELOW])

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        return next(self.parameters()).dtype

    @property
    def blocks(self) -> list[nn.Module]:
        """The blocks, in the order they run; none if the encoder does not name them."""
        return list(self.get_submodule(self.block_list).children()) if self.block_list else []

    def adapt_only(self, names: Sequence[str]) -> None:
        """Let only these norm layers adapt, and run what comes before them once per batch."""
        super().adapt_only(names)
        self.cut_at(self._first_adapted_block(names))

    def cut_at(self, first: int) -> None:
        """Let everything below block `first` run once per batch; 0 cuts nothing. Done once."""
        if self._cut is not None:
            raise BadInput("this encoder is cut already: load it again to choose other blocks.")
        if first > 0:
            self._cut = FrozenPrefix(self.blocks, first)
            self._generation += 1  # copies made before are not cut

    def precision(self) -> AbstractContextManager[Any]:
        """The precision that matrix products are computed in."""
        half = self.autocast or (self.dtype if self.dtype in HALVES else None)
        return torch.autocast(self.device.type, half) if half else nullcontext()

    def _vectors(self, begun: Mapping[str, Tensor]) -> Tensor:
        """Unit vectors, normalised in full precision."""
        if self.compiled:
            self._compile_blocks()
        with self.precision():
            vectors = self.embed(self._cast(begun))
        full = vectors.to(torch.promote_types(vectors.dtype, torch.float32))
        return normalize(full, dim=-1).to(self.dtype)

    def _cast(self, prepared: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: tensor.to(self.dtype) if tensor.is_floating_point() else tensor
            for name, tensor in prepared.items()
        }

    def _first_adapted_block(self, names: Sequence[str]) -> int:
        """The block that the first of these layers is in or behind; 0 if it comes before all."""
        if not self.block_list or not names:
            return 0
        prefix = f"{self.block_list}."
        if names[0].startswith(prefix):
            return int(names[0].removeprefix(prefix).split(".")[0])
        order = [name for name, _ in self.named_modules()]
        is_behind = order.index(names[0]) > order.index(self.block_list)
        return len(self.blocks) - 1 if is_behind else 0

    def _compile_blocks(self) -> None:
        """Compile block by block, since they share code; each thread's copy does it for itself."""
        for block in self.blocks:
            if block._compiled_call_impl is None:
                block.compile()


def copy_on_same_storage(module: Module) -> Module:
    """A copy on the same storage, for two encoders that share a module but are cut apart."""
    memo: dict[int, Any] = {
        id(parameter): nn.Parameter(parameter.detach()) for parameter in module.parameters()
    }
    return copy.deepcopy(module, memo)


def full_precision(layer: Any, values: Tensor) -> Tensor:
    """The forward of a layer that reads pixels or energies, in the precision of its weights.

    Half precision would round what it reads: a pixel by up to a quarter of an 8-bit level, and
    alike in all of an even area, which a tower may take for a contour in the image.
    """
    with without_autocast():
        return cast(Tensor, type(layer).forward(layer, values.to(layer.weight.dtype)))


def keep_full_precision(layer: Module) -> Module:
    """Let a layer compute in full precision from now on, and return it."""
    layer.forward = partial(full_precision, layer)  # no closure: a copy's is of the copy's layer
    return layer


def keep_input_layers_precise(tower: nn.Module) -> None:
    """Do so for all layers of another library's tower that read pixels or energies."""
    for name, part in tower.named_modules():
        narrow = isinstance(part, nn.Conv2d) and part.in_channels <= RAW_CHANNELS
        if narrow or name.endswith(PATCHES):
            keep_full_precision(part)


class FrozenPrefix:
    """Splits a run through blocks in two without touching the code that runs them.

    Going up, the run stops at the first adapted block and gives what would have entered it.
    Going on from there, the blocks below do nothing and that block gets what was kept.
    """

    def __init__(self, blocks: list[nn.Module], first: int) -> None:
        self._stops = False
        self._kept: Tensor | None = None
        for block in blocks[:first]:
            block.forward = _Skippable(block, self)
        blocks[first].register_forward_pre_hook(self._enter, with_kwargs=True)

    @property
    def skips(self) -> bool:
        """Whether the blocks below have nothing to do, as their result is known."""
        return self._kept is not None

    def below(self, run: Callable[[], Tensor]) -> Tensor:
        """What enters the first adapted block."""
        self._stops = True
        try:
            run()
        except _Reached as reached:
            return reached.hidden
        finally:
            self._stops = False
        raise BadInput("the run never reached the first adapted block: are the blocks in order?")

    def above(self, run: Callable[[], Tensor], kept: Tensor) -> Tensor:
        """The result of the run from the first adapted block on."""
        self._kept = kept
        try:
            return run()
        finally:
            self._kept = None

    def _enter(self, block: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        if self._stops:
            raise _Reached(_hidden(args, kwargs))
        if self._kept is None:
            return None
        return (self._kept, *args[1:]), {k: v for k, v in kwargs.items() if k != HIDDEN}


class _Reached(Exception):
    """Carries hidden states out of a run that need not go on."""

    def __init__(self, hidden: Tensor) -> None:
        super().__init__()
        self.hidden = hidden


class _Skippable:
    """A block's forward that hands its input through when the block has nothing to do.

    An object rather than a closure, so that copying an encoder points it at the copy's block.
    """

    wraps: ClassVar[dict[type, bool]] = {}
    """Whether blocks of a class give a tuple (transformers 4), learnt when one first runs."""

    def __init__(self, block: nn.Module, cut: FrozenPrefix) -> None:
        self.kind, self.forward, self.cut = type(block), block.forward, cut

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kind = self.kind
        if self.cut.skips and kind in self.wraps:
            hidden = _hidden(args, kwargs)
            return (hidden,) if self.wraps[kind] else hidden
        output = self.forward(*args, **kwargs)
        self.wraps[kind] = isinstance(output, tuple)
        return output


def _hidden(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    return cast(Tensor, args[0] if args else kwargs[HIDDEN])
