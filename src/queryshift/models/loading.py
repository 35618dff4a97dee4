"""Load a model by name, directory or file as `{modality: Encoder}`, and its matching head."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from queryshift.errors import BadFile, BadInput, UnknownName, check_known, unknown
from queryshift.support.paths import is_file, is_there, user_path
from queryshift.support.registry import BUNDLED_MODELS, MATCHERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

    from queryshift.encoders.adapted_parameters import LayerChoice
    from queryshift.encoders.encoder import Encoder
    from queryshift.encoders.matcher import Matcher

    from .hf import Checkpoint

MODELS = {
    **dict.fromkeys(BUNDLED_MODELS, "bundled"),
    "clip-base": "openai/clip-vit-base-patch16",
    "clip-large": "openai/clip-vit-large-patch14",
    "siglip-base": "google/siglip-base-patch16-224",
    "siglip2-base": "google/siglip2-base-patch16-naflex",
    "altclip": "BAAI/AltCLIP",
    "chinese-clip": "OFA-Sys/chinese-clip-vit-base-patch16",
    "clap": "laion/clap-htsat-unfused",
    "blip-base-coco": "Salesforce/blip-itm-base-coco",
    "blip-base-flickr": "Salesforce/blip-itm-base-flickr",
    "blip-large-coco": "Salesforce/blip-itm-large-coco",
    "blip-large-flickr": "Salesforce/blip-itm-large-flickr",
    "blip2": "Salesforce/blip2-itm-vit-g",
}
"""Short names for `load`, each with its name on the Hugging Face Hub, or "bundled".

Examples:
    >>> import queryshift as qs
    >>> qs.MODELS["clip-base"], qs.MODELS["tangram"]
    ('openai/clip-vit-base-patch16', 'bundled')
"""

ARCHITECTURES = {
    "CLIPModel": "clip",
    "AltCLIPModel": "clip",
    "ChineseCLIPModel": "clip",
    "SiglipModel": "siglip",
    "Siglip2Model": "siglip",
    "ClapModel": "clap",
    "BlipForImageTextRetrieval": "blip",
    "Blip2ForImageTextRetrieval": "blip2",
}
"""Class of a Hugging Face checkpoint to the module here that loads it."""

FORMATS = ("blip_original", "cav_mae", "sprc")
"""Modules for authors' own files, in the order in which they try to recognise one."""

MATCHERS.add("BlipText", "queryshift.models.blip:MATCHERS")

PUBLISHED_RERANK = {"coco": 256, "flickr": 128}
"""Part of a model's name to the number of hits that its published evaluation re-ranks."""

PREPROCESSINGS = ("library", "published")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")


def load(
    name: str | Path | Callable[[], Any] | Mapping[str, Encoder],
    adapt: LayerChoice | Mapping[str, LayerChoice] = "all",
    precision: str = "auto",
    compile: bool = False,
    device: str | torch.device | None = None,
    preprocessing: str = "library",
    cuda_graphs: bool = False,
) -> dict[str, Encoder]:
    """Load the encoders of a model, by modality.

    Args:
        name: A name of `MODELS`, a name on the Hugging Face Hub, a directory in its format or in
            that of sentence-transformers, or a checkpoint file of BLIP, CAV-MAE or SPRC. For
            encoders of your own: "package.module:make", or the class or function itself, which
            returns an `Encoder` or a mapping of them.
        adapt: The norm layers that may adapt: "all", "last:3" (of the last three blocks), name
            patterns, or one of these by modality.
        precision: "float32", "bfloat16", "float16", or "auto": bfloat16 on CUDA, else float32.
        compile: Whether blocks are compiled by `torch.compile`.
        device: The device of the encoders; None leaves them where they were loaded.
        preprocessing: "library", or "published": items are read as in the paper's code.
        cuda_graphs: Whether a GPU records forward passes as CUDA graphs, by shape: faster, but
            their memory stays allocated.

    Returns:
        A mapping such as `{"image": Encoder, "text": Encoder}`, in evaluation mode.

    Raises:
        UnknownName: No model has this name.
        BadFile: The checkpoint is damaged, or of a class that cannot be loaded.
        MissingExtra: Its extra is not installed: "hf" for most, "lab" for the bundled ones.

    Examples:
        >>> import queryshift as qs
        >>> sorted(qs.load("tangram"))
        ['image', 'text']
    """
    check_known("precision", precision, PRECISIONS)
    check_known("preprocessing", preprocessing, PREPROCESSINGS)
    if isinstance(name, str | Path):
        model = _found(str(name), preprocessing == "published")
    else:
        model = _made(name)
    if adapt != "all":
        import_module("queryshift.encoders.adapted_parameters").adapt(model, adapt)
    for encoder in model.values():
        _move(encoder.eval(), device or encoder.device)
        _speed_up(encoder, precision, compile, cuda_graphs)
    _tell_origin(name, model)
    return model


def _tell_origin(name: Any, model: dict[str, Encoder]) -> None:
    """Store in each encoder where it comes from, so that galleries of other models are noticed."""
    from queryshift.galleries.model_origin import ModelOrigin

    if any(encoder.device.type == "meta" for encoder in model.values()):
        return  # no weights yet
    told = str(name) if isinstance(name, str | Path) else getattr(name, "__name__", "your model")
    prints = {modality: encoder.fingerprint() for modality, encoder in model.items()}
    for modality, encoder in model.items():
        encoder.origin = ModelOrigin(told, modality, prints)


def matcher(
    model: str | Path | Mapping[str, Encoder], query: str, rerank: int | None = None
) -> Matcher:
    """Return the matching head of a model for queries of one modality (the single-stream model).

    Args:
        model: The result of `load`, or a name to load.
        query: The modality of the queries.
        rerank: How many hits of each query are re-ranked: 256 for a model with "coco" in its name,
            else the matcher's default (128; 16 for tangram).
    """
    if isinstance(model, str | Path):
        model = load(model)
    side = type(model.get("text")).__name__
    if side not in MATCHERS:
        raise BadInput(
            f"no matcher is known for a model of {', '.join(sorted(model))} whose text side is "
            f"{side}: expected BlipForImageTextRetrieval or tangram."
        )
    matchers = MATCHERS[side]
    check_known("modality with a matcher", query, matchers)
    head: Matcher = matchers[query](model).eval()
    origin = model["text"].origin
    told = "" if origin is None else origin.model.lower()
    named = [count for name, count in PUBLISHED_RERANK.items() if name in told]
    head.rerank = rerank or next(iter(named), head.rerank)
    return head


def _made(given: Any) -> dict[str, Encoder]:
    """Get encoders from a user's class, function, mapping or encoder."""
    import torch

    from .custom_encoders import encoders_from

    foreign = isinstance(given, torch.nn.Module) and not hasattr(given, "prepare")
    if foreign or not (callable(given) or hasattr(given, "items")):
        raise BadInput(
            f"got a {type(given).__name__}, expected a name, a directory, a file, or a class of "
            "encoders. A model that is loaded already: models.open_clip.wrap for open_clip's, else "
            "docs/your-own-model.md."
        )
    return encoders_from(given, getattr(given, "__name__", f"a {type(given).__name__}"))


def _found(name: str, published: bool) -> dict[str, Encoder]:
    """Load the model with this name, in any format."""
    if name in BUNDLED_MODELS:
        return BUNDLED_MODELS[name](name)
    source = MODELS.get(name, name)
    path = user_path(source)
    if is_file(path):
        return _from_file(path, published)
    if not is_there(path) and "/" not in source:
        if (own := _module("custom_encoders")).is_reference(name):
            return cast("dict[str, Encoder]", own.referenced(name))
        raise UnknownName(
            f"{unknown('model', name, MODELS)} It can also be a directory, a name on the Hugging "
            "Face Hub (owner/name) or module:function."
        )
    checkpoint = _module("hf").Checkpoint(str(path) if is_there(path) else source, published)
    loader = "sentence_transformers" if checkpoint.file("modules.json") else _loader(checkpoint)
    return cast("dict[str, Encoder]", _module(loader).load(checkpoint))


def _from_file(path: Path, published: bool) -> dict[str, Encoder]:
    """Load a file in its authors' own format."""
    for module in map(_module, FORMATS):
        if module.FORMAT.recognises(path):
            return cast("dict[str, Encoder]", module.load(path, published=published))
    raise BadFile(
        f"{path} is none of the checkpoint files known here (BLIP's, CAV-MAE's, SPRC's): "
        "give one of those, or the directory of a Hugging Face model."
    )


def _loader(checkpoint: Checkpoint) -> str:
    """Return the module that loads this class of checkpoint."""
    architecture = checkpoint.architecture
    if architecture in ARCHITECTURES:
        return ARCHITECTURES[architecture]
    instead = f"Classes that can be loaded: {', '.join(ARCHITECTURES)}."
    if architecture.startswith("Blip"):
        right = "Blip2ForImageTextRetrieval" if "2" in architecture else "BlipForImageTextRetrieval"
        instead = f"Its retrieval heads would be random: use a checkpoint saved from {right}."
    if "auto_map" in checkpoint.config:
        instead = f"It needs custom code, which is never run. {instead}"
    raise BadFile(f'"{checkpoint.name}" was saved from the class {architecture}. {instead}')


def _move(encoder: Encoder, device: str | torch.device) -> None:
    try:
        encoder.to(device)
    except (RuntimeError, AssertionError) as error:  # a torch without CUDA asserts
        reason = str(error).strip().splitlines()[0]
        raise BadInput(f'the device "{device}" cannot be used here ({reason}).') from error


def _module(name: str) -> Any:
    return import_module(f"queryshift.models.{name}")


def _speed_up(encoder: Encoder, precision: str, compile: bool, cuda_graphs: bool) -> None:
    """Set half precision, compilation and CUDA graphs."""
    import torch

    from .blocks import BlockEncoder

    half = "bfloat16" if precision == "auto" and encoder.device.type == "cuda" else precision
    wanted = None if half in ("auto", "float32") else getattr(torch, half)
    if isinstance(encoder, BlockEncoder):
        encoder.autocast, encoder.compiled, encoder.cuda_graphs = wanted, compile, cuda_graphs
    elif precision not in ("auto", "float32") or compile or cuda_graphs:
        raise BadInput(
            f"{type(encoder).__name__} computes in float32 and is neither compiled nor recorded: "
            "leave `precision`, `compile` and `cuda_graphs` as they are."
        )
    if cuda_graphs and encoder.device.type != "cuda":
        raise BadInput(
            f"cuda_graphs needs a GPU, this model is on {encoder.device}: load it with "
            'device="cuda", or without cuda_graphs.'
        )
