"""Models in the format of sentence-transformers: a text tower, pooling, and more modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import normalize

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadFile, check_known

from . import clip
from .blocks import copy_on_same_storage
from .hf import Checkpoint, Tower
from .tokenising import Words

LIBRARY = "sentence_transformers."  # start of its modules' names
PASSAGES = ("document", "passage", "corpus")  # names of the prompt for candidates
COUNT_FROM_PADDING = ("roberta", "xlm-roberta", "camembert", "mpnet")  # number positions from there
WITHOUT_DECODER = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel"}
NO_LIMIT = 1_000_000  # tokens, for models with relative positions
_TOWER_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)


class SentenceEncoder(Tower):
    """Texts through a tower, pooling and the modules behind it."""

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """Return the pooled tokens after all other modules."""
        tokens = self.tower(**prepared).last_hidden_state
        return cast(Tensor, self.head(self.pool(tokens, prepared["attention_mask"])))


class Normalize(nn.Module):
    """Scales vectors to unit length, for models that do so between other modules."""

    def forward(self, vectors: Tensor) -> Tensor:
        """Return unit vectors."""
        return normalize(vectors, dim=-1)


@dataclass(frozen=True)
class Module:
    """One entry of `modules.json`."""

    kind: str
    checkpoint: Checkpoint
    """The model, with the module's subfolder."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The content of the module's own `config.json`."""
        return self.checkpoint.json("config.json") or {}


def load(checkpoint: Checkpoint) -> dict[str, Encoder]:
    """Load "text", with prompts also "query" and "passage"; for CLIP "image" and "text"."""
    tower, *rest = _modules(checkpoint)
    if tower.kind not in ("Transformer", "CLIPModel"):
        raise _unknown(tower, "Transformer or CLIPModel as the first")
    if tower.checkpoint.architecture == "CLIPModel":
        return _clip(tower.checkpoint, rest)
    if not rest or rest[0].kind != "Pooling":
        raise _unknown(rest[0] if rest else tower, "Pooling behind Transformer")
    tower.checkpoint.refuse_published()
    prompts = _prompts(checkpoint)
    pooling = _pooling(rest[0], prompts)
    head = nn.Sequential(*map(_layer, rest[1:])).float().eval()
    model, words = _tower(tower.checkpoint), _words(tower.checkpoint)
    return {
        name: SentenceEncoder(  # each with modules of its own: encoders are cut apart
            copy_on_same_storage(model),
            copy_on_same_storage(head),
            replace(words, prompt=prompt),
            pooling,
        )
        for name, prompt in prompts.items()
    }


def _modules(checkpoint: Checkpoint) -> list[Module]:
    """Return the modules in `modules.json`, in order."""
    entries = checkpoint.json("modules.json")
    if not entries or not all(isinstance(entry, dict) and "type" in entry for entry in entries):
        raise BadFile(f'"{checkpoint.name}" lists no modules in modules.json: download it again.')
    modules = []
    for entry in entries:
        if not str(entry["type"]).startswith(LIBRARY):
            raise BadFile(
                f'"{checkpoint.name}" has a module {entry["type"]}, which is custom code and '
                "never run: use a model made of sentence-transformers' own modules."
            )
        part = replace(checkpoint, subfolder=str(entry.get("path") or ""))
        modules.append(Module(str(entry["type"]).rpartition(".")[2], part))
    return modules


def _clip(checkpoint: Checkpoint, rest: Sequence[Module]) -> dict[str, Encoder]:
    """Load both sides of CLIP; other modules must not change the direction of a vector."""
    for module in rest:
        if module.kind not in ("Normalize", "Dropout"):
            raise _unknown(module, "nothing but Normalize behind CLIP")
    return clip.load(checkpoint)


def _tower(checkpoint: Checkpoint) -> nn.Module:
    """Load the tower without the pooler of some classes, which is unused and may be random."""
    kind = str(checkpoint.config.get("model_type"))
    tower = checkpoint.read_as(WITHOUT_DECODER.get(kind, "AutoModel"), unused="pooler")
    if getattr(tower, "pooler", None) is not None:
        tower.pooler = None
    return cast(nn.Module, tower)


def _words(checkpoint: Checkpoint) -> Words:
    """Return the reader of texts, with the length that files and positions allow."""
    config = checkpoint.config
    positions = int(config.get("max_position_embeddings") or NO_LIMIT)
    if config.get("model_type") in COUNT_FROM_PADDING:
        positions -= int(config.get("pad_token_id", 1)) + 1
    told: Mapping[str, Any] = next(filter(None, map(checkpoint.json, _TOWER_FILES)), {})
    words = checkpoint.words(limit=positions if positions > 0 else NO_LIMIT)
    most = int(told.get("max_seq_length") or words.tokenizer.model_max_length)
    lower_case = bool(told.get("do_lower_case", False))
    return replace(words, limit=min(most, words.limit), lower_case=lower_case)


def _prompts(checkpoint: Checkpoint) -> dict[str, str]:
    """Return the prompt before texts, by the name of the encoder."""
    config = checkpoint.json("config_sentence_transformers.json") or {}
    told = {name: text or "" for name, text in (config.get("prompts") or {}).items()}
    usual = told.get(config.get("default_prompt_name"), "")
    query = told.get("query", "")
    passage = next((told[name] for name in PASSAGES if told.get(name)), "")
    if not (query or passage):
        return {"text": usual}
    return {"text": usual, "query": query, "passage": passage}


def _pooling(module: Module, prompts: Mapping[str, str]) -> Pooling:
    if module.config.get("include_prompt", True) is False and any(prompts.values()):
        raise BadFile(
            f'"{module.checkpoint.name}" pools without its prompt (include_prompt is false), which '
            "is not known here: use a model that pools over all tokens."
        )
    return Pooling(modes_of(module.config))


def _layer(module: Module) -> nn.Module:
    if module.kind == "Normalize":
        return Normalize()
    if module.kind == "Dropout":
        return nn.Identity()
    if module.kind == "Dense":
        return _dense(module)
    if module.kind == "LayerNorm":
        return _filled(nn.LayerNorm(int(module.config["dimension"])), module, "norm.")
    raise _unknown(module, "Dense, LayerNorm, Dropout or Normalize behind Pooling")


def _dense(module: Module) -> nn.Module:
    config = module.config
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = (
        getattr(nn, name.rpartition(".")[2], None) if name.startswith("torch.nn.") else None
    )
    on_tokens = config.get("module_input_name", "sentence_embedding") != "sentence_embedding"
    if activation is None or on_tokens or config.get("use_residual"):
        raise BadFile(
            f'a Dense module of "{module.checkpoint.name}" has the activation {name}, acts on '
            "tokens, or adds its input: expected an activation of torch.nn on the pooled vector."
        )
    sizes = int(config["in_features"]), int(config["out_features"])
    linear = nn.Linear(*sizes, bias=bool(config.get("bias", True)))
    return nn.Sequential(_filled(linear, module, "linear."), activation())


def _filled(layer: nn.Module, module: Module, prefix: str) -> nn.Module:
    """Load all weights of the module's file into the layer."""
    with module.checkpoint.reading(f"the weights of {module.kind}"):
        weights = _weights(module.checkpoint)
        layer.load_state_dict({name.removeprefix(prefix): w for name, w in weights.items()})
    return layer


def _weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    if file := checkpoint.file("model.safetensors"):
        return load_file(file)
    if file := checkpoint.file("pytorch_model.bin"):
        return cast("dict[str, Tensor]", torch.load(file, map_location="cpu", weights_only=True))
    raise FileNotFoundError(f"no model.safetensors in {checkpoint.subfolder}.")


def _unknown(module: Module, expected: str) -> BadFile:
    return BadFile(
        f'"{module.checkpoint.name}" has the module {module.kind} at '
        f'"{module.checkpoint.subfolder}", expected {expected}.'
    )


@dataclass(frozen=True)
class Pooling:
    """Pool to one vector per text; the vectors of several modes are concatenated."""

    modes: Sequence[str]

    def __post_init__(self) -> None:
        for mode in self.modes:
            check_known("pooling mode", mode, MODES)

    def __call__(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Pool token vectors (B, T, D) under a mask (B, T) to vectors (B, D)."""
        return torch.cat([MODES[mode](tokens, mask) for mode in self.modes], dim=-1)


def first(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the first token after padding."""
    return _at(tokens, mask.argmax(dim=1))


def last(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the last token before padding."""
    return _at(tokens, mask.shape[1] - 1 - mask.flip(1).argmax(dim=1))


def maximum(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the largest value of each dimension."""
    return tokens.masked_fill(mask[..., None] == 0, float("-inf")).amax(dim=1)


def mean(tokens: Tensor, weights: Tensor) -> Tensor:
    """Return the mean of the tokens."""
    return _sum(tokens, weights) / weights.sum(dim=1, keepdim=True)


def mean_by_root(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the sum of the tokens, divided by the square root of their number."""
    return _sum(tokens, mask) / mask.sum(dim=1, keepdim=True).sqrt()


def mean_by_position(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the tokens with weights 1, 2, 3 and so on."""
    return mean(tokens, mask.cumsum(dim=1) * mask)


MODES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": first,
    "max": maximum,
    "mean": mean,
    "mean_sqrt_len_tokens": mean_by_root,
    "weightedmean": mean_by_position,
    "lasttoken": last,
}
"""Names in checkpoints to modes, in the order in which they are concatenated."""


def modes_of(config: Mapping[str, object]) -> list[str]:
    """Return the modes in a Pooling module's config: one, several, or a flag for each."""
    named = config.get("pooling_mode")
    if isinstance(named, str):
        return [named]
    if isinstance(named, Sequence):
        return [str(mode) for mode in named]
    ends = ("", "_token", "_tokens")  # of flags such as pooling_mode_cls_token
    flagged = (m for m in MODES if any(config.get(f"pooling_mode_{m}{end}") for end in ends))
    return list(flagged) or ["mean"]


def _at(tokens: Tensor, positions: Tensor) -> Tensor:
    return tokens[torch.arange(len(tokens), device=tokens.device), positions]


def _sum(tokens: Tensor, weights: Tensor) -> Tensor:
    return (tokens * weights[..., None].to(tokens.dtype)).sum(dim=1)
