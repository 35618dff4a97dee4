"""Which parameters adapt: those of an encoder's norm layers, all or what `adapt=` chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from queryshift.errors import BadInput, CannotAdapt

if TYPE_CHECKING:
    from .frozen_module import FrozenModule

Params: TypeAlias = dict[str, Tensor]
LayerChoice: TypeAlias = str | Sequence[str]
"""`"all"`, `"last:3"`, a pattern of module names, or several of these; `"!..."` takes away."""


NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, _BatchNorm)


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a norm layer with weights of its own."""
    named_so = type(module).__name__.lower().endswith(("layernorm", "rmsnorm"))
    return (isinstance(module, NORMS) or named_so) and module._parameters.get("weight") is not None


def adapt(
    model: Mapping[str, FrozenModule], choice: LayerChoice | Mapping[str, LayerChoice]
) -> None:
    """Let only the chosen norm layers adapt, in each encoder or by modality (others: all)."""
    by_modality = choice if isinstance(choice, Mapping) else dict.fromkeys(model, choice)
    if unknown := sorted(set(by_modality) - set(model)):
        raise BadInput(
            f'adapt names "{unknown[0]}", but the model has: {", ".join(sorted(model))}.'
        )
    chosen = {name: select(part, by_modality.get(name, "all")) for name, part in model.items()}
    for name, encoder in model.items():
        encoder.adapt_only(chosen[name])


def norm_params(module: FrozenModule) -> Params:
    """The source values of the parameters that adapt, in float32 (or float64)."""
    if any(parameter.is_inference() for parameter in module.parameters()):
        raise CannotAdapt(
            f"{type(module).__name__} was made under torch.inference_mode(), where nothing can "
            "have a gradient: load the model outside of it, or use the method Frozen."
        )
    params = {
        f"{layer}.{name}": _full(value)
        for layer in norm_layer_names(module)
        for name, value in module.get_submodule(layer).named_parameters(recurse=False)
    }
    if not params:
        raise CannotAdapt(
            f"{type(module).__name__} has no LayerNorm, RMSNorm, GroupNorm or BatchNorm with "
            "weights among the modules that may adapt: use the method Frozen, or TSA or "
            "TCRUntrained, which need none, or name the layers in `norm_names`."
        )
    return params


def norm_layer_names(module: FrozenModule, *never: str) -> tuple[str, ...]:
    """The norm layers that may adapt, in the order of modules, but none that `never` matches."""
    allowed = module.norm_names
    return tuple(
        name
        for name, part in module.named_modules()
        if is_norm(part)
        and (allowed is None or name in allowed)
        and not any(fnmatchcase(name, pattern) for pattern in never)
    )


def select(encoder: FrozenModule, choice: LayerChoice) -> tuple[str, ...]:
    """The norm layers of `encoder` that `choice` names, in the order of modules."""
    patterns = [choice] if isinstance(choice, str) else list(choice)
    layers = norm_layer_names(encoder)
    chosen = set(layers) if not patterns or patterns[0].startswith("!") else set()
    for pattern in patterns:
        matching = _matching(encoder, layers, pattern.removeprefix("!"))
        chosen = chosen - matching if pattern.startswith("!") else chosen | matching
    if layers and not chosen:
        raise BadInput(f"adapt={choice!r} leaves no norm layer of {_names(layers)} to adapt.")
    return tuple(name for name in layers if name in chosen)


def _matching(encoder: FrozenModule, layers: Sequence[str], pattern: str) -> set[str]:
    if pattern == "all":
        return set(layers)
    if pattern.startswith("last:"):
        prefixes = _last_blocks(encoder, pattern)
        return {name for name in layers if name.startswith(prefixes)}
    matching = {name for name in layers if fnmatchcase(name, pattern)}
    if not matching:
        raise BadInput(
            f'adapt="{pattern}" matches no norm layer of {type(encoder).__name__}; it may be '
            f'"all", "last:3", or a pattern of names such as {_names(layers)}.'
        )
    return matching


def _last_blocks(encoder: FrozenModule, pattern: str) -> tuple[str, ...]:
    """Prefixes of the names in the last blocks."""
    home = getattr(encoder, "block_list", None)
    if not isinstance(home, str):
        raise BadInput(
            f'adapt="{pattern}" needs an encoder that names its blocks, and '
            f"{type(encoder).__name__} does not: choose norm layers by patterns of their names."
        )
    count = len(list(encoder.get_submodule(home).children()))
    wanted = pattern.removeprefix("last:")
    if not wanted.isdecimal() or not 1 <= int(wanted) <= count:
        raise BadInput(
            f'adapt="{pattern}": {type(encoder).__name__} has {count} blocks, so it may be '
            f'"last:1" to "last:{count}".'
        )
    return tuple(f"{home}.{index}." for index in range(count - int(wanted), count))


def _full(value: Tensor) -> Tensor:
    """Float32 at least: a gain of 1.0027 in bfloat16 is 1, and adaptation would vanish."""
    wide = torch.float64 if value.dtype == torch.float64 else torch.float32
    return value.detach().to(wide, copy=True)


def _names(layers: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in layers[:3]) + (", ..." if len(layers) > 3 else "")
