"""A method around another one: by default everything is the inner method's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder, Params
from queryshift.errors import BadInput
from queryshift.galleries import Searchable
from queryshift.retrieval.forward import Forward

from .base import Method, StepView, Update

OPTIMISER = ("weight_decay", "optimiser")  # settings of the wrapped method only


@dataclass(frozen=True, kw_only=True)
class Wrapper(Method):
    """Learning rate, temperature and the optimiser's settings are the wrapped method's.

    Args:
        method: The method that is wrapped.
    """

    method: Method = field(kw_only=False, metadata={"about": "the method that is wrapped"})

    def __post_init__(self) -> None:
        if not isinstance(self.method, Method):
            raise BadInput(
                f"{type(self).__name__} got {self.method!r} to wrap, expected a method with its "
                f"settings: {type(self).__name__}(Tent())."
            )
        super().__post_init__()

    @property
    def name(self) -> str:
        """The wrapped method's name, marked."""
        return f"{self.method.name}+{type(self).__name__.lower()}"

    @property
    def adapting(self) -> bool:
        """As the wrapped method."""
        return self.method.adapting

    @property
    def adapts_matcher(self) -> bool:
        """As the wrapped method."""
        return self.method.adapts_matcher

    @property
    def smallest_batch(self) -> int:
        """As the wrapped method."""
        return self.method.smallest_batch

    def check(self) -> None:
        """Refuse settings that cannot work or would have no effect."""
        super().check()
        self.method.check()
        for name in OPTIMISER:
            given = getattr(self, name)
            if given not in (getattr(type(self), name), getattr(self.method, name)):
                raise BadInput(
                    f"{self.name}: got {name}={given!r}, which the wrapped method decides: give it "
                    f"to that one, {type(self.method).__name__}({name}={given!r})."
                )

    def resolved(self, encoder: Encoder, lr: float | None = None, name: str | None = None) -> Self:
        """Fill in rate and temperature for the pair of wrapper and method."""
        self.check()
        lr = self.lr if lr is None else lr
        inner = self.method
        if self.temperature is not None:
            inner = replace(inner, temperature=self.temperature)
        inner = inner.resolved(encoder, lr, name or self.name)
        same = {name: getattr(inner, name) for name in ("lr", "temperature", *OPTIMISER)}
        return replace(self, method=inner, **same)

    def adapts(self, encoder: Encoder, gallery: Searchable) -> Params:
        """As the wrapped method."""
        return self.method.adapts(encoder, gallery)

    def start(self, gallery: Searchable, device: torch.device) -> Any:
        """As the wrapped method."""
        return self.method.start(gallery, device)

    def moved(self, memory: Any, gallery: Searchable) -> Any:
        """As the wrapped method."""
        return self.method.moved(memory, gallery)

    def check_memory(self, memory: Any, gallery: Searchable) -> None:
        """As the wrapped method."""
        self.method.check_memory(memory, gallery)

    def observe(self, forward: Forward, memory: Any, step: int) -> Any:
        """As the wrapped method."""
        return self.method.observe(forward, memory, step)

    def step_share(self, memory: Any) -> float:
        """As the wrapped method."""
        return self.method.step_share(memory)

    def entropies(self, forward: Forward) -> Tensor | None:
        """As the wrapped method."""
        return self.method.entropies(forward)

    def loss(self, forward: Forward, memory: Any) -> Tensor | None:
        """As the wrapped method."""
        return self.method.loss(forward, memory)

    def gradient(self, step_view: StepView, memory: Any) -> Update:
        """As the wrapped method."""
        return self.method.gradient(step_view, memory)

    def view(self, forward: Forward, memory: Any) -> Forward:
        """As the wrapped method."""
        return self.method.view(forward, memory)
