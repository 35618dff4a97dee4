"""The `adapt=` choice: which norm layers of an encoder may adapt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

from queryshift.encoders.encoder import Encoder, is_norm
from queryshift.errors import BadInput

from .blocks import BlockEncoder

Wish: TypeAlias = str | Sequence[str]
"""`"all"`, `"last:3"`, a pattern of module names, or several of these; `"!..."` takes away."""


def adapt(model: Mapping[str, Encoder], wish: Wish | Mapping[str, Wish]) -> None:
    """Let only the wished norm layers adapt, in each encoder or by modality (others: all)."""
    by_modality = wish if isinstance(wish, Mapping) else dict.fromkeys(model, wish)
    if strangers := sorted(set(by_modality) - set(model)):
        raise BadInput(
            f'adapt names "{strangers[0]}", but the model has: {", ".join(sorted(model))}.'
        )
    chosen = {
        name: select(encoder, by_modality.get(name, "all")) for name, encoder in model.items()
    }
    for name, encoder in model.items():
        encoder.norm_names = chosen[name]
        if isinstance(encoder, BlockEncoder):
            encoder.cut_at(_first_block(encoder, chosen[name]))


def norm_layers(encoder: Encoder, *never: str) -> tuple[str, ...]:
    """The norm layers that may adapt, in the order of modules, but none that `never` matches."""
    allowed = encoder.norm_names
    return tuple(
        name
        for name, module in encoder.named_modules()
        if is_norm(module)
        and (allowed is None or name in allowed)
        and not any(fnmatchcase(name, pattern) for pattern in never)
    )


def select(encoder: Encoder, wish: Wish) -> tuple[str, ...]:
    """The norm layers of `encoder` that `wish` names, in the order of modules."""
    wishes = [wish] if isinstance(wish, str) else list(wish)
    layers = norm_layers(encoder)
    chosen = set(layers) if not wishes or wishes[0].startswith("!") else set()
    for one in wishes:
        found = _matching(encoder, layers, one.removeprefix("!"))
        chosen = chosen - found if one.startswith("!") else chosen | found
    if layers and not chosen:
        raise BadInput(f"adapt={wish!r} leaves no norm layer of {_names(layers)} to adapt.")
    return tuple(name for name in layers if name in chosen)


def _matching(encoder: Encoder, layers: Sequence[str], wish: str) -> set[str]:
    if wish == "all":
        return set(layers)
    if wish.startswith("last:"):
        prefixes = _last_blocks(encoder, wish)
        return {name for name in layers if name.startswith(prefixes)}
    found = {name for name in layers if fnmatchcase(name, wish)}
    if not found:
        raise BadInput(
            f'adapt="{wish}" matches no norm layer of {type(encoder).__name__}; it may be "all", '
            f'"last:3", or a pattern of names such as {_names(layers)}.'
        )
    return found


def _last_blocks(encoder: Encoder, wish: str) -> tuple[str, ...]:
    """Prefixes of the names in the last blocks."""
    home = getattr(encoder, "block_list", None)
    if not isinstance(home, str):
        raise BadInput(
            f'adapt="{wish}" needs an encoder that names its blocks, and {type(encoder).__name__} '
            "does not: choose norm layers by patterns of their names instead."
        )
    count = len(list(encoder.get_submodule(home).children()))
    wanted = wish.removeprefix("last:")
    if not wanted.isdecimal() or not 1 <= int(wanted) <= count:
        raise BadInput(
            f'adapt="{wish}": {type(encoder).__name__} has {count} blocks, so it may be '
            f'"last:1" to "last:{count}".'
        )
    return tuple(f"{home}.{index}." for index in range(count - int(wanted), count))


def _first_block(encoder: BlockEncoder, names: Sequence[str]) -> int:
    """The block that the first adapted layer is in or behind; 0 if one comes before the blocks."""
    if not encoder.block_list or not names:
        return 0
    home = f"{encoder.block_list}."
    if names[0].startswith(home):
        return int(names[0].removeprefix(home).split(".")[0])
    order = [name for name, _ in encoder.named_modules()]
    behind = order.index(names[0]) > order.index(encoder.block_list)
    return len(encoder.blocks) - 1 if behind else 0


def _names(layers: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in layers[:3]) + (", ..." if len(layers) > 3 else "")
