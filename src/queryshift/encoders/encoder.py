"""An encoder turns items of one modality into unit vectors, with any norm parameters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from queryshift.errors import BadInput, CannotAdapt
from queryshift.support.threads import working

from .adapted_parameters import Params as Params
from .frozen_module import FrozenModule
from .prepared import Prepared, PreparedItem, check, check_several, count, joined, move

if TYPE_CHECKING:
    from queryshift.galleries.model_origin import ModelOrigin


class Encoder(FrozenModule):
    """Items of one modality to unit vectors. It never changes.

    A session runs it with norm parameters of its own. An encoder of yours writes `prepare` and
    `forward`; its norm layers are found and adapt. One whose first part no adapted parameter can
    change may also write `shared` (that part, run once per batch) and `finish` (the rest); one that
    works with a matcher writes `finish_for_matcher`.

    Examples:
        >>> import torch
        >>> import queryshift as qs
        >>> class Rows(qs.Encoder):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.norm = torch.nn.LayerNorm(4)
        ...     def prepare(self, items):
        ...         return torch.tensor(items)
        ...     def forward(self, prepared):
        ...         return torch.nn.functional.normalize(self.norm(prepared), dim=1)
        >>> encoder = Rows()
        >>> encoder.encode([[1.0, 2.0, 3.0, 4.0]]).norm(dim=1)
        tensor([1.0000])
        >>> list(encoder.norm_params())
        ['norm.weight', 'norm.bias']
    """

    recommended: Mapping[str, Mapping[str, float]] = {}
    """Learning rate and temperature per method name, or "*" for all but `InfoMax`, the default."""

    dimension: int | None = None
    """Length of the vectors, if known in advance; a session checks it."""

    origin: ModelOrigin | None = None
    """The model and modality that `queryshift.load` loaded it as."""

    @abstractmethod
    def prepare(self, items: Sequence[Any]) -> Prepared:
        """Tensors for a list of items, on the CPU.

        Args:
            items: Items as the user gives them.

        Returns:
            A tensor, or a mapping or tuple of them, whose first axis is the items.
        """

    @abstractmethod
    def forward(self, prepared: Any) -> Tensor:
        """Unit vectors of a prepared batch.

        Args:
            prepared: What `prepare` gave, on the encoder's device.

        Returns:
            Unit vectors (B, D); a gallery encoder may give several per item, (B, V, D).
        """

    def shared(self, prepared: Any) -> Any:
        """The part that adapted parameters cannot change, run once per batch without a graph.

        Args:
            prepared: What `prepare` gave, on the encoder's device.

        Returns:
            Tensors as from `prepare`; `finish` takes them.
        """
        return prepared

    def finish(self, shared: Any) -> Tensor:
        """Unit vectors of what `shared` gave: `finish(shared(x))` equals `forward(x)`.

        Args:
            shared: What `shared` gave.

        Returns:
            Unit vectors (B, D) or (B, V, D).
        """
        return self.forward(shared)

    def finish_for_matcher(self, shared: Any) -> tuple[Tensor, Prepared]:
        """Unit vectors, and what a matcher reads of each query.

        Args:
            shared: What `shared` gave.

        Returns:
            Unit vectors (B, D), and tensors whose first axis is the queries.
        """
        raise CannotAdapt(
            f"{type(self).__name__} gives a matcher nothing to read: write `finish_for_matcher`, "
            "or leave the matcher out."
        )

    def through(self, params: Params, shared: Any) -> Tensor:
        """Unit vectors of a batch, with other values of some parameters.

        Args:
            params: Values by parameter name, as `norm_params` has them; the others are the
                encoder's own.
            shared: What `ready` gave.

        Returns:
            Unit vectors (B, D) in float32 or float64, with a graph to `params`.
        """
        vectors = self._checked(self.run_with_params(params, "finish", shared), shared)
        return self._reached(vectors, params)

    def through_for_matcher(self, params: Params, shared: Any) -> tuple[Tensor, Prepared]:
        """Unit vectors and what a matcher reads, with other values of some parameters.

        Args:
            params: Values by parameter name.
            shared: What `ready` gave.

        Returns:
            Unit vectors (B, D), and what the matcher reads of each query.
        """
        vectors, readings = self.run_with_params(params, "finish_for_matcher", shared)
        return self._reached(self._checked(vectors, shared), params), readings

    @torch.no_grad()
    def ready(self, items: Sequence[Any]) -> Any:
        """The shared part of a batch of items, checked and on the encoder's device.

        Args:
            items: Items as the user gives them, at least one.

        Returns:
            What `shared` makes of them, for `through`.
        """
        check_several(items)
        items = list(items)
        if not items:
            raise BadInput("got an empty batch, expected at least one item.")
        prepared = move(self._prepared(items), self.device)
        check(prepared, len(items))  # there: a GPU checks a batch of images in no time
        self.notice_replaced_tensors()
        return self.replica()("shared", prepared)

    @torch.no_grad()
    def prepare_item(self, item: Any) -> PreparedItem:
        """Prepare an item before its batch is known, in any thread; `ready` accepts the result.

        For items whose tensors have the same shape in every batch, such as images, or are padded
        at the end under a mask, such as texts.

        Args:
            item: An item as the user gives it.

        Returns:
            What `ready` takes in its place.
        """
        return PreparedItem(self.prepare([item]))

    def _prepared(self, items: list[Any]) -> Prepared:
        if not any(isinstance(item, PreparedItem) for item in items):
            return self.prepare(items)
        each = (i.batch if isinstance(i, PreparedItem) else self.prepare([i]) for i in items)
        return joined(list(each))

    @torch.no_grad()
    @working()
    def encode(self, items: Sequence[Any]) -> Tensor:
        """Unit vectors of items with the source parameters, in the encoder's own precision.

        Args:
            items: Items as the user gives them, at least one.

        Returns:
            Unit vectors (B, D) or (B, V, D).

        Examples:
            >>> import queryshift as qs
            >>> qs.load("tangram")["text"].encode(["a red square", "an arrow"]).shape
            torch.Size([2, 128])
        """
        shared = self.ready(items)
        return self._checked(self.run_with_params({}, "finish", shared), shared)

    def check_apart(self, instead: str) -> None:
        """Refuse to split or mix batches if that would change the vectors.

        Args:
            instead: What the error tells the user to do.
        """
        if self.batch_layer is not None:
            raise CannotAdapt(
                f"{self.batch_layer} of {type(self).__name__} is a BatchNorm without running "
                f"statistics, so that vectors depend on what else is in the batch: {instead}."
            )

    def _checked(self, vectors: Any, shared: Any) -> Tensor:
        """The vectors, refused if they are not one or several for each item."""
        if not isinstance(vectors, Tensor):
            raise BadInput(
                f"forward() of {type(self).__name__} gave a {type(vectors).__name__}, expected a "
                "torch tensor of unit vectors (items, dimensions)."
            )
        if vectors.ndim < 2 or len(vectors) != count(shared):
            raise BadInput(
                f"forward() of {type(self).__name__} gave vectors of shape {tuple(vectors.shape)} "
                f"for {count(shared)} items, expected a row for each: (items, dimensions)."
            )
        return vectors

    def _reached(self, vectors: Tensor, params: Params) -> Tensor:
        """The vectors in float32 at least, refused if they lack a graph that is needed."""
        wanted = torch.is_grad_enabled() and any(value.requires_grad for value in params.values())
        if wanted and not vectors.requires_grad:
            raise unreached(self)
        return vectors if vectors.dtype == torch.float64 else vectors.float()


def unreached(encoder: Encoder) -> CannotAdapt:
    """The error for vectors that no adapted parameter can change."""
    return CannotAdapt(
        f"the vectors of {type(encoder).__name__} do not depend on the norm layers that may adapt: "
        "does forward() use torch.no_grad(), detach(), or a module that is kept in a list or as a "
        "function, or does `norm_names` name layers that it never reaches?"
    )


def check_encoder(encoder: Any) -> None:
    """Refuse anything but an encoder, and say what to pass."""
    if isinstance(encoder, Mapping):
        names = " or ".join(f'model["{name}"]' for name in encoder)
        raise BadInput(f"got a whole model as encoder, expected one of its encoders: {names}.")
    if not isinstance(encoder, Encoder):
        raise BadInput(
            f"got a {type(encoder).__name__} as encoder, expected an Encoder: load the model with "
            "queryshift.load, or wrap it (docs/your-own-model.md)."
        )
