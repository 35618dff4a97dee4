"""The base class of methods: hyperparameters, a loss, and hooks around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from queryshift.encoders.encoder import Encoder, Params
from queryshift.errors import BadInput
from queryshift.galleries import Searchable
from queryshift.retrieval.forward import Batch, Forward
from queryshift.support.setting_fields import check_values as check_values
from queryshift.support.setting_fields import setting as setting
from queryshift.support.threads import lazy_property

from .optimiser import Optimiser

UNCHANGED: Any = object()
LARGEST_COUNT = 2**53  # counts also serve as exponents and in roots, as floats


class StepView:
    """What one step sees of a batch: its forward now, and the source model's."""

    def __init__(self, batch: Batch, params: Params, source: Params, seed: int) -> None:
        self.batch, self.params, self.source_params, self.seed = batch, params, source, seed

    @property
    def at_source(self) -> bool:
        """Whether nothing has been learnt yet."""
        return self.params is self.source_params

    @lazy_property
    def now(self) -> Forward:
        """The forward through the current parameters, with a graph; computed once."""
        forward = self.at(self.params)
        if self.at_source and self.batch.source is None:
            self.batch.source = forward.detached()
        return forward

    @property
    def source(self) -> Forward:
        """The source model's forward, without a graph, once per batch."""
        return self.batch.source_forward(self.source_params)

    def at(self, params: Params) -> Forward:
        """The forward through other parameters, with a graph."""
        return self.batch.forward(params, graph=True)


@dataclass(frozen=True)
class Update:
    """The result of one step."""

    gradient: Params | None  # None: nothing to learn, no step of the optimiser
    rate: Tensor | float = 1.0  # factor on the learning rate
    restart: bool = False  # return to the source
    memory: Any = UNCHANGED  # the method's memory from now on
    measures: Mapping[str, Tensor] = field(default_factory=dict)  # for the statistics


@dataclass(frozen=True, kw_only=True)
class Method:
    """Hyperparameters and a loss. A method has no state: what it learns goes into `memory`.

    A method of your own is a frozen dataclass with a `loss`.

    Args:
        lr: Learning rate; None takes the encoder's recommendation, else `fallback`.
        temperature: Temperature of the prediction; None takes the encoder's recommendation, else
            `fallback`.
        weight_decay: Weight decay as in AdamW, also on the scale values of norm layers.
        optimiser: "adamw", or "sgd", which makes Theorem 2 exact.

    Examples:
        >>> from dataclasses import dataclass
        >>> import queryshift as qs
        >>> @dataclass(frozen=True, kw_only=True)
        ... class Nearer(qs.Method):
        ...     def loss(self, forward, memory):
        ...         return -forward.scores.amax(dim=1).mean()
        >>> text = qs.load("tangram")["text"]
        >>> gallery = qs.Gallery.build(text, ["a red square", "two blue circles", "a green star"])
        >>> session = qs.Session(text, gallery, Nearer(lr=1e-4))
        >>> session.answer(["a small red square", "the green star"]).top(1).ids
        [[0], [2]]
    """

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
    rate_of_stream: ClassVar[bool] = False  # a session finds the rate if nobody sets one
    built_in: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Wrappers that the method has built in: by name, the settings that switch them on."""

    def __post_init__(self) -> None:
        self.check()

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
        """Whether the parameters of the session's matcher adapt too."""
        return False

    @property
    def smallest_batch(self) -> int:
        """The smallest batch to learn from."""
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
        """The same method with learning rate and temperature filled in for an encoder.

        Args:
            encoder: The encoder, which may recommend both.
            lr: A learning rate that wins over all others.
            name: The name that recommendations are looked up by; None is the method's own.

        Returns:
            The method with both set.
        """
        known = {**self.fallback, **advice(encoder.recommended, name or self.name, self)}
        return replace(
            self,
            lr=next(rate for rate in (lr, self.lr, known["lr"]) if rate is not None),
            temperature=known.get("temperature") if self.temperature is None else self.temperature,
        )

    def check(self) -> None:
        """Refuse settings that cannot work."""
        check_values(self, self.name)
        self._must("lr", self.lr is None or self.lr >= 0, "a number of at least 0")
        self._must("temperature", self.temperature is None or self.temperature > 0, "more than 0")

    def _must(self, name: str, holds: bool, expected: str) -> None:
        if not holds:
            raise BadInput(f"{self.name}: {name} is {getattr(self, name)!r}, expected {expected}.")

    def adapts(self, encoder: Encoder, gallery: Searchable) -> Params:
        """The parameters that adapt.

        Args:
            encoder: The encoder of the session.
            gallery: The gallery of the session.

        Returns:
            The source values by parameter name; names that the encoder lacks are parameters of
            the method.
        """
        return encoder.norm_params()

    def start(self, gallery: Searchable, device: torch.device) -> Any:
        """Fresh memory for one session.

        Args:
            gallery: The gallery of the session.
            device: The device of the queries.

        Returns:
            Any value that is never changed in place; None: no memory.
        """
        return None

    def moved(self, memory: Any, gallery: Searchable) -> Any:
        """Memory after the session's gallery was replaced.

        Args:
            memory: The memory so far.
            gallery: The new gallery.

        Returns:
            The memory from now on.
        """
        return memory

    def check_memory(self, memory: Any, gallery: Searchable) -> None:
        """Refuse, with a ValueError, memory from a file that does not fit.

        Args:
            memory: The memory as it was read.
            gallery: The session's gallery.
        """

    def observe(self, forward: Forward, memory: Any, step: int) -> Any:
        """Memory after a step's forward.

        Args:
            forward: The batch through the current parameters.
            memory: The memory so far.
            step: Which of the batch's steps this is, from 0.

        Returns:
            The memory from now on; it holds no graph.
        """
        return memory

    def step_share(self, memory: Any) -> float:
        """The share of a batch's queries that one of its steps learns from.

        Args:
            memory: What the method remembers.

        Returns:
            A number above 0 and at most 1.
        """
        return 1.0

    def entropies(self, forward: Forward) -> Tensor | None:
        """The entropies by which the method trusts queries.

        Args:
            forward: The batch through the current parameters.

        Returns:
            An entropy for each query (B,); None if the method has none of its own.
        """
        return None

    def loss(self, forward: Forward, memory: Any) -> Tensor | None:
        """The loss.

        Args:
            forward: The batch: `forward.vectors` (B, D), and `forward.scores` (B, N) with a graph
                to them.
            memory: The memory after `observe`.

        Returns:
            One scalar, a pure function of the query vectors; None if there is nothing to learn.
        """
        raise NotImplementedError

    def gradient(self, step_view: StepView, memory: Any) -> Update:
        """The update of one step; override it if it is not the gradient of `loss`.

        Args:
            step_view: The batch through the step's parameters (`now`), the source's (`source`), or
                any others (`at`).
            memory: The memory after `observe`.

        Returns:
            The gradient, and what else the step asks of the session.
        """
        loss = self.loss(step_view.now, memory)
        return Update(None if loss is None else step_view.now.gradients(loss)[0])

    def view(self, forward: Forward, memory: Any) -> Forward:
        """The forward that answers.

        Args:
            forward: The batch through the current parameters.
            memory: The memory after the batch's steps.

        Returns:
            The same, or one with other vectors or another gallery.
        """
        return forward


def advice(
    recommended: Mapping[str, Mapping[str, float]], name: str, method: Method
) -> Mapping[str, float]:
    """The most specific recommendation: "tent+refined", then "tent", then "*".

    A method that finds its own rate takes none that is meant for all methods.
    """
    named = (name, name.split("+")[0])
    keys = named if method.rate_of_stream else (*named, "*")
    return next((recommended[key] for key in keys if key in recommended), {})


def check_count(value: Any, name: str) -> None:
    """Refuse, with a ValueError, anything but a whole number of at least 0."""
    if type(value) is not int or not 0 <= value < LARGEST_COUNT:
        raise ValueError(f"{name} is {value!r}, not a count")
