"""Hugging Face checkpoints: find them, read them, and refuse incomplete ones."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from queryshift.errors import BadFile, BadInput
from queryshift.support.optional import need
from queryshift.support.paths import is_there
from queryshift.support.threads import lazy_property

from .blocks import BlockEncoder, keep_input_layers_precise
from .image_preprocessing import ImageReader
from .tokenising import Words

NAMED = 5  # missing weights that an error names
COUNT_FROM_PADDING = ("altclip_text_model", "clap_text_model")  # number positions as RoBERTa does
PATIENCE = 3.0  # seconds in which the Hub must answer; its own client tries much longer


@dataclass(frozen=True)
class Checkpoint:
    """A model on the Hub, in the local cache or in a directory."""

    name: str
    published: bool = False
    """Whether items are read as in the paper's code, if that differs from the library."""

    subfolder: str = ""
    """The folder of the model in the directory or repository."""

    @lazy_property
    def config(self) -> Mapping[str, Any]:
        """The content of `config.json`."""
        here = is_there(Path(self.name))
        file = self.file("config.json") if here else self._fetched("config.json")
        if file is None:
            raise BadFile(
                f'"{self.name}" is no model: expected a directory with config.json, weights and '
                "processor files, as save_pretrained writes them."
            )
        return cast("Mapping[str, Any]", _parsed(file))

    def file(self, name: str) -> Path | None:
        """Return the path of a file of the model on this machine; None if it does not exist."""
        if is_there(Path(self.name)):
            path = Path(self.name) / self.subfolder / name
            return path if path.is_file() else None
        try:
            return self._fetched(name)
        except BadInput:
            return None

    def json(self, name: str) -> Any:
        """Return the content of a JSON file of the model; None if it does not exist."""
        file = self.file(name)
        return None if file is None else _parsed(file)

    @property
    def architecture(self) -> str:
        """The class that the weights were saved from; `AutoModel` ignores it."""
        named = self.config.get("architectures") or ["none"]
        return str(named[0])

    @lazy_property
    def model(self) -> Any:
        """The model in eval mode and float32, with all weights from the checkpoint."""
        return self.read_as(self.architecture)

    def read_as(self, class_name: str, unused: str | None = None) -> Any:
        """Load the model as a class of transformers; weights under `unused` may be missing."""
        cls = getattr(_transformers(), class_name)
        with self.reading("the weights"):
            model, notes = cls.from_pretrained(self.name, output_loading_info=True, **self._safely)
        absent = sorted(
            name for name in notes["missing_keys"] if not (unused and name.startswith(f"{unused}."))
        )
        if absent:
            raise BadFile(
                f'"{self.name}" lacks {len(absent)} weights of {type(model).__name__}: '
                f"{', '.join(absent[:NAMED])}{', ...' if len(absent) > NAMED else ''}. They would "
                "be random: use a checkpoint saved from that class."
            )
        return model.float().eval()

    def words(self, to_the_limit: bool = False, masked: bool = True, limit: int = 0) -> Words:
        """Return the reader of texts; the default `limit` is the model's own."""
        tokenizer = self._processor("AutoTokenizer", "the tokenizer")
        most = limit or min(tokenizer.model_max_length, self._positions())
        return Words(tokenizer, most, to_the_limit, masked, cleaned=self.published)

    def image_reader(self, square: int | None = None) -> ImageReader:
        """Return the reader of images; it always uses Pillow, so results do not depend on
        torchvision."""
        pil = {"backend": "pil"} if _version() >= 5 else {"use_fast": False}
        return ImageReader(
            self._processor("AutoImageProcessor", "the image processor", **pil), square
        )

    def extractor(self) -> Any:
        """Return the reader of audio."""
        return self._processor("AutoFeatureExtractor", "the feature extractor")

    def refuse_published(self) -> None:
        """Refuse "published" preprocessing if it is unknown, or the same as the library's."""
        if self.published:
            raise BadInput(
                f"no published preprocessing is known for {self.architecture} that differs: "
                'use preprocessing="library".'
            )

    @lazy_property
    def _local(self) -> bool:
        """Whether nothing is downloaded: it is a directory, or the Hub cannot be reached."""
        return is_there(Path(self.name)) or not reachable()

    @property
    def _safely(self) -> dict[str, Any]:
        return {
            "trust_remote_code": False,
            "local_files_only": self._local,
            "subfolder": self.subfolder,
        }

    def _positions(self) -> int:
        """Return the number of tokens that the text tower has positions for."""
        whole = self.model.config
        text = getattr(whole, "qformer_config", None) or whole.text_config
        kept = text.pad_token_id + 1 if text.model_type in COUNT_FROM_PADDING else 0
        return int(text.max_position_embeddings - kept)

    def _processor(self, auto: str, what: str, **options: Any) -> Any:
        with self.reading(what):
            return getattr(_transformers(), auto).from_pretrained(
                self.name, **self._safely, **options
            )

    def _fetched(self, file: str) -> Path:
        cached_file = _transformers().utils.cached_file
        try:
            return Path(cached_file(self.name, file, **self._safely))
        except (OSError, ValueError) as error:
            reason = f"could not be fetched ({_first_line(error).rstrip('.')})"
            if self._local:
                reason = f"{endpoint()} cannot be reached from here"
            raise BadInput(
                f'model "{self.name}" is no directory here, not in the local Hugging Face cache, '
                f"and {reason}: go online once, copy the model's directory here and give its path, "
                "or correct the name (short ones stand in queryshift.MODELS)."
            ) from error

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Turn every error of the block into a `BadFile` that names what was read."""
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:  # many kinds, by file format and version
            raise BadFile(
                f'{what} of "{self.name}" ({self.architecture}) could not be read: '
                f"{_first_line(error)}"
            ) from error


class Tower(BlockEncoder):
    """One side of a dual encoder: read items, run the tower, pool, project."""

    def __init__(
        self,
        tower: nn.Module,
        head: nn.Module,
        read: Callable[[Sequence[Any]], dict[str, Tensor]],
        pool: Callable[..., Tensor],
    ) -> None:
        super().__init__()
        self.tower, self.head = tower, head
        self.read, self.pool = read, pool
        self.dimension = getattr(head, "out_features", None)  # of a linear projection
        self.block_list = blocks_of(tower, "tower")
        self.requires_grad_(False)
        keep_input_layers_precise(tower)

    def embed(self, prepared: Mapping[str, Tensor]) -> Tensor:
        """Return the pooled and projected output."""
        return cast(Tensor, self.head(self.pool(self.tower(**prepared))))


def pooled(output: Any) -> Tensor:
    """Return the output of the tower's own pooling."""
    return cast(Tensor, output.pooler_output)


def first_token(output: Any) -> Tensor:
    """Return the hidden state of the class token."""
    return cast(Tensor, output.last_hidden_state[:, 0])


def blocks_of(tower: nn.Module, prefix: str) -> str | None:
    """Return the name of a tower's only list of blocks; None if it has none or several."""
    lists = [name for name, part in tower.named_modules() if isinstance(part, nn.ModuleList)]
    return f"{prefix}.{lists[0]}" if len(lists) == 1 else None


def _parsed(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadFile(f"{file} is not JSON ({error}): download the model again.") from error


def _transformers() -> Any:
    return need("transformers", "hf", "loading a Hugging Face model")


def _version() -> int:
    return int(_transformers().__version__.split(".")[0])


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def endpoint() -> str:
    """Return the Hub's address, which HF_ENDPOINT can change."""
    return str(need("huggingface_hub.constants", "hf", "loading a Hugging Face model").ENDPOINT)


def reachable() -> bool:
    """Return whether the Hub answers within a few seconds; False if HF_HUB_OFFLINE is set.

    A thread asks, because a DNS lookup has no timeout.
    """
    constants = need("huggingface_hub.constants", "hf", "loading a Hugging Face model")
    if constants.HF_HUB_OFFLINE:
        return False
    answered = threading.Event()
    asking = threading.Thread(target=_ask, args=(endpoint(), answered), daemon=True)
    asking.start()
    asking.join(PATIENCE)
    return answered.is_set()


def _ask(address: str, answered: threading.Event) -> None:
    request = urllib.request.Request(address, method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=PATIENCE).close()
    except urllib.error.HTTPError:
        pass  # it answers, with an error
    except (OSError, ValueError):
        return
    answered.set()
