"""What a method is: hyperparameters, a loss, and the hooks around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder, Params
from queryshift.errors import BadInput
from queryshift.galleries import Searchable
from queryshift.retrieval.forward import Forward, StepView
from queryshift.support.setting_fields import check_values

from .optimiser import Optimiser

Origin = Literal["paper", "TCR's code", "official code", "T3A's code", "a port", "ours"]
UNCHANGED: Any = object()


def setting(default: Any, origin: Origin, about: str) -> Any:
    """A field of a method, with where its default comes from and what it means."""
    return field(default=default, metadata={"origin": origin, "about": about})


@dataclass(frozen=True)
class Update:
    """What one step asks of the session."""

    gradient: Params | None  # None: nothing to learn from, the optimiser is left alone
    rate: Tensor | float = 1.0  # factor on the learning rate
    restart: bool = False  # return to the source
    memory: Any = UNCHANGED  # what the method remembers from now on
    measures: Mapping[str, Tensor] = field(default_factory=dict)  # for the session's report


@dataclass(frozen=True, kw_only=True)
class Method:
    """Hyperparameters and a loss. A method keeps no state: what it learns goes into `memory`."""

    lr: float | None = setting(
        None, "TCR's code", "learning rate; None: the encoder's recommendation, else `fallback`"
    )
    temperature: float | None = setting(
        None, "paper", "of the prediction; None: the encoder's recommendation, else `fallback`"
    )
    weight_decay: float = setting(1e-4, "TCR's code", "decoupled, also on norm gains")
    optimiser: Optimiser = setting("adamw", "TCR's code", '"sgd" makes Theorem 2 exact')

    fallback: ClassVar[Mapping[str, float]] = {"lr": 3e-4, "temperature": 0.01}
    own_temperature: ClassVar[bool] = False  # benchmarks leave the temperature to the method
    built_in: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Wrappers that the method does without: by name, the settings that do the same inside it."""

    @property
    def name(self) -> str:
        """The key of `METHODS` and of `Encoder.recommended`."""
        return type(self).__name__.lower()

    @property
    def adapting(self) -> bool:
        """Whether it changes anything at all."""
        return True

    @property
    def adapts_matcher(self) -> bool:
        """Whether a matcher's parameters adapt too, where the session has one."""
        return False

    @property
    def smallest_batch(self) -> int:
        """Smaller batches are only scored."""
        return 1

    @property
    def rate(self) -> float:
        """The learning rate in force."""
        return self.fallback["lr"] if self.lr is None else self.lr

    @property
    def tau(self) -> float:
        """The temperature in force."""
        return self.fallback["temperature"] if self.temperature is None else self.temperature

    def resolved(self, encoder: Encoder, lr: float | None = None, name: str | None = None) -> Self:
        """The same method with learning rate and temperature filled in for this encoder."""
        known = {**self.fallback, **advice(encoder.recommended, name or self.name)}
        filled = replace(
            self,
            lr=next(one for one in (lr, self.lr, known["lr"]) if one is not None),
            temperature=known["temperature"] if self.temperature is None else self.temperature,
        )
        filled.check()
        return filled

    def check(self) -> None:
        """Refuse settings that cannot work."""
        check_values(self, self.name)
        self._must("lr", self.lr is None or self.lr >= 0, "a number of at least 0")
        self._must("temperature", self.temperature is None or self.temperature > 0, "more than 0")

    def _must(self, name: str, holds: bool, expected: str) -> None:
        if not holds:
            raise BadInput(f"{self.name}: {name} is {getattr(self, name)!r}, expected {expected}.")

    def adapts(self, encoder: Encoder, gallery: Searchable) -> Params:
        """The source values of what adapts."""
        return encoder.norm_params()

    def start(self, gallery: Searchable, device: torch.device) -> Any:
        """Fresh memory for one session, on the device of the queries."""
        return None

    def moved(self, memory: Any, gallery: Searchable) -> Any:
        """Memory after the session's gallery was replaced."""
        return memory

    def observe(self, forward: Forward, memory: Any, step: int) -> Any:
        """Memory after this step's forward; it holds no graph."""
        return memory

    def unsure(self, forward: Forward) -> Tensor | None:
        """Entropy (B,) by which a query is trusted; None: not by one of its own."""
        return None

    def loss(self, forward: Forward, memory: Any) -> Tensor | None:
        """One scalar, a pure function of the query vectors; None if there is nothing to learn."""
        raise NotImplementedError

    def gradient(self, step_view: StepView, memory: Any) -> Update:
        """What this step asks for; override where it is not the loss's own gradient."""
        loss = self.loss(step_view.now, memory)
        return Update(None if loss is None else step_view.now.gradients(loss)[0])

    def view(self, forward: Forward, memory: Any) -> Forward:
        """The retrieval that is ranked and answered from."""
        return forward


def advice(recommended: Mapping[str, Mapping[str, float]], name: str) -> Mapping[str, float]:
    """The most special recommendation: "tent+refined", then "tent", then "*"."""
    keys = (name, name.split("+")[0], "*")
    return next((recommended[key] for key in keys if key in recommended), {})
