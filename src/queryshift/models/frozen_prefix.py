"""A run through stacked blocks, split in two at the first block that adapts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from queryshift.errors import BadInput

HIDDEN = "hidden_states"  # what Hugging Face's blocks call their input


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
    hidden: Tensor = args[0] if args else kwargs[HIDDEN]
    return hidden
