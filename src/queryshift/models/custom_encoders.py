"""Encoders of your own: made by a function or a class, or named as "module:name"."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadInput, unknown

ONLY = "item"  # default modality of a single encoder
_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def is_reference(name: str) -> bool:
    """Return whether a model's name is a reference such as "module:name".

    >>> is_reference("mypackage.models:make"), is_reference("openai/clip-vit-base-patch16")
    (True, False)
    """
    return _REFERENCE.fullmatch(name) is not None


def referenced(name: str) -> dict[str, Encoder]:
    """Get the encoders of "package.module:make"; modules in the working folder are found too."""
    module_name, _, attribute = name.partition(":")
    value = _module(module_name, name)
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise unknown("model", name, [f"{module_name}:{made}" for made in _makers(value)])
        value = getattr(value, part)
    return encoders_from(value, f'"{name}"')


def _makers(value: Any) -> list[str]:
    """Public names of what may make encoders."""
    public = ((name, made) for name, made in vars(value).items() if not name.startswith("_"))
    return [name for name, made in public if callable(made) or isinstance(made, Encoder | Mapping)]


def encoders_from(made: Any, origin: str) -> dict[str, Encoder]:
    """Get encoders by modality from an encoder, a mapping, or a function that returns either.

    Args:
        made: an encoder, a mapping, a class or a function without arguments.
        origin: its name, for errors.
    """
    if not isinstance(made, Encoder | Mapping) and callable(made):
        made = _called(made, origin)
    if isinstance(made, Encoder):
        made = {str(getattr(made, "modality", ONLY)): made}
    if not isinstance(made, Mapping) or not made:
        raise BadInput(
            f"{origin} gave a {type(made).__name__}, expected a queryshift.Encoder or a mapping "
            '{"image": encoder, "text": encoder}: see docs/your-own-model.md.'
        )
    for modality, encoder in made.items():
        if not isinstance(modality, str) or not isinstance(encoder, Encoder):
            raise BadInput(
                f"{origin} gave {modality!r}: {type(encoder).__name__}, expected a modality's name "
                "and a queryshift.Encoder: see docs/your-own-model.md."
            )
    return dict(made)


def _called(make: Callable[[], Any], origin: str) -> Any:
    try:
        return make()
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # inside the function, whose own mistake it is
        raise BadInput(
            f"{origin} cannot be called without arguments ({error}): give a function that needs "
            "none, such as one that passes them itself."
        ) from error


def _module(module_name: str, name: str) -> Any:
    """Import the module, from the working folder too, as users of commands expect."""
    top = module_name.partition(".")[0]
    if find_spec(top) is None:
        sys.path.append(str(Path.cwd()))
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and imports something that is not
        raise BadInput(
            f'"{name}": there is no module "{error.name}", neither installed nor in '
            f'"{Path.cwd()}": give "package.module:function".'
        ) from None
