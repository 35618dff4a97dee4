"""The benchmarks, one row each with all its settings. Importing this loads no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from queryshift.errors import unknown
from queryshift.lab.corruptions.names import COMBINATIONS, NAMES
from queryshift.lab.datasets.tangram import COMPOSED, SENTENCE, TASKS

AS_IT_IS = ""
"""The shift of a row that has no list of them: queries as they are, or one drawn for each."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One direction of retrieval over one dataset, and the shifts its queries come under."""

    name: str
    series: str  # the paper's name, which the directions of one benchmark share
    dataset: str  # a key of `DATASETS`, or "tangram"
    query: str  # modality of the queries
    gallery: str  # modality of the candidates
    source: str  # the model that is adapted, in words
    model: str = ""  # its name for `load`; empty if users must give a file
    part: str = ""  # of the dataset: a domain of Nocaps, a look of tangram
    split: str = "test"  # tangram's world that queries and candidates are of
    shifts: tuple[str, ...] = (AS_IT_IS,)
    severities: tuple[int, ...] = (5,)  # none: nothing is corrupted
    diverse: bool = False  # every query under a shift of its own; REST decouples its gradients
    batch: int = 64
    temperature: float | None = 0.01  # of the baselines; None: what the encoder recommends
    metric: str = "recall@1"  # the one the paper reports
    categories: tuple[str, ...] = ()  # each with a gallery and a session of its own
    as_published: bool = False  # corrupted as the published scripts do, mistakes included
    sentence: str = "backtranslation"  # the change at the sentence level of combinations
    methods: tuple[str, ...] = ("frozen", "rest")  # of a run that names none
    downloads: bool = False  # the dataset's files, where they are not there
    file: str = ""  # that describes a user's own benchmark

    @property
    def protocol(self) -> str:
        """The paper's OQS or DQS, in a word."""
        return "diverse" if self.diverse else "online"

    @property
    def corrupted(self) -> bool:
        """Whether queries are corrupted, or come from another domain as they are."""
        return bool(self.severities)

    @property
    def clean(self) -> bool:
        """Whether nothing shifted at all: the source's own world as it is."""
        return self.series.endswith("-clean")

    @property
    def on_disk(self) -> bool:
        """Whether the dataset's files are needed."""
        return self.dataset != "tangram"

    @property
    def needs(self) -> tuple[str, ...]:
        """What a user must provide."""
        files = (f"--root ({self.dataset})",) if self.on_disk and not self.file else ()
        files = ("a network",) if self.downloads else files
        return files if self.model else (*files, "--model")


def find(name: str) -> tuple[Benchmark, ...]:
    """The row of this name, all directions of one the paper names ("coco-o"), or a file's."""
    if name.endswith(".toml"):
        from .own_benchmark import read_benchmark

        return (read_benchmark(Path(name)),)
    if name in BENCHMARKS:
        return (BENCHMARKS[name],)
    rows = tuple(row for row in BENCHMARKS.values() if row.series == name)
    if not rows:
        raise unknown("benchmark", name, [*BENCHMARKS, *SERIES])
    return rows


def all_shifts(query: str) -> tuple[str, ...]:
    """The shifts of an online benchmark: single corruptions, or combinations of categories."""
    return COMBINATIONS[query] if query in COMBINATIONS else single_shifts(query)


def online(row: Benchmark) -> Benchmark:
    """The row with every shift of its queries in turn."""
    return replace(row, shifts=all_shifts(row.query))


def single_shifts(query: str) -> tuple[str, ...]:
    """Every corruption of a modality alone; of pairs, the combinations."""
    return COMBINATIONS[query] if query == COMPOSED else tuple(chain(*NAMES[query].values()))


def directions(series: str, first: str, second: str, **shared: Any) -> Iterator[Benchmark]:
    """Two rows: ask with either modality, search the other."""
    for query, gallery in ((first, second), (second, first)):
        name = f"{series}-{query}"
        yield Benchmark(name=name, series=series, query=query, gallery=gallery, **shared)


def composed(series: str, dataset: str, source: str, **more: Any) -> Benchmark:
    """A benchmark of composed queries: an image and a change to it, against images."""
    by_category = dataset == "fashion-iq"
    return Benchmark(
        name=series,
        series=series,
        dataset=dataset,
        query=COMPOSED,
        gallery="image",
        source=source,
        batch=32,
        metric="recall@10" if by_category else "recall@1",
        categories=("dress", "shirt", "toptee") if by_category else (),
        **more,
    )


_PRETRAINED = "BLIP ViT-B/16, pre-trained (model_base.pth)"
_SMALL = "a small dual encoder (training.photographs.encoders:make)"
_SENTENCES = "a sentence encoder (docs/models.md)"
_AUDIO = "a small dual encoder (training.sounds.encoders:make)"
_CAV_MAE = "CAV-MAE, trained on AudioSet"
_SPRC = {name: f"SPRC (BLIP-2), fine-tuned on {name}" for name in ("FashionIQ", "CIRR")}


def _images_and_captions() -> Iterator[Benchmark]:
    for name, dataset, tuned in (("coco", "coco", "COCO"), ("flickr", "flickr30k", "Flickr30k")):
        source, model = f"BLIP ViT-B/16, fine-tuned on {tuned}", f"blip-base-{name}"
        shared = {"dataset": dataset, "source": source, "model": model, "as_published": True}
        yield from map(online, directions(f"{name}-o", "image", "text", **shared))
        yield from directions(f"{name}-d", "image", "text", diverse=True, **shared)
    natural: dict[str, Any] = {"source": _PRETRAINED, "severities": ()}  # never saw this dataset
    for name, dataset, part in (
        *(("flickr", "flickr30k", ""), ("coco", "coco", "")),
        *(("nocaps-id", "nocaps", "in-domain"), ("nocaps-od", "nocaps", "out-domain")),
        *(("rsicd", "rsicd", ""), ("rsitmd", "rsitmd", "")),
    ):
        own = {"dataset": dataset, "part": part, **natural}
        yield from directions(f"general2{name}", "image", "text", **own)
    own = {"dataset": "fashion-gen", "diverse": True, "temperature": 0.001, **natural}
    yield from directions("fashion-gen", "image", "text", **own)


def _photographs() -> Iterator[Benchmark]:
    """Flickr8k, which the paper does not use: for a model trained on its clean images.

    The development part is the publisher's validation split.
    """
    for name, part in (("flickr8k", ""), ("flickr8k-dev", "val")):
        shared = {"dataset": "flickr8k", "part": part, "source": _SMALL, "temperature": None}
        yield from map(online, directions(f"{name}-o", "image", "text", **shared))
        yield from directions(f"{name}-d", "image", "text", diverse=True, **shared)
        yield from directions(f"{name}-clean", "image", "text", severities=(), **shared)


def _real_clip() -> Iterator[Benchmark]:
    """A public model on public photographs; whoever has a network runs it with one command."""
    shared = {
        "dataset": "flickr8k",
        "source": "CLIP ViT-B/16",
        "model": "openai/clip-vit-base-patch16",
        "temperature": None,
        "methods": ("frozen", "default", "rest", "shot"),
        "downloads": True,
    }
    few = {
        "image": ("gaussian_noise", "motion_blur", "fog", "jpeg"),
        "text": ("ocr", "character_swap", "synonym_replacement", "word_deletion"),
    }
    for row in directions("real-clip", "image", "text", **shared):
        yield replace(row, shifts=few[row.query])
        yield replace(row, name=f"real-clip-clean-{row.query}", severities=())


def _real_sets() -> Iterator[Benchmark]:
    """Real text, images and audio, which the paper does not use: a test and a development part.

    The requests are for documentation of an API, in the ways people type them.
    """
    for side, dev in (("test", ""), ("dev", "-dev")):
        aws = _real(f"aws{dev}", "clean", "text", _SENTENCES, side)
        yield aws
        yield replace(aws, name=f"aws{dev}-chatty", shifts=("chatty",), severities=(1,))
        yield replace(aws, name=f"aws{dev}-typos", shifts=("typos",), severities=(2, 5))
        yield replace(aws, name=f"aws{dev}-half", shifts=("half_typos",), severities=(5,))
        for way in ("zipf", "duplicates"):
            yield replace(aws, name=f"aws{dev}-{way}", part=f"{side}-{way}")
        yield _real(f"msmarco{dev}", "clean", "text", _SENTENCES, side)
        yield _real(f"msmarco{dev}", "typos", "text", _SENTENCES, f"{side}-typos")
        for domain in ("photo", "art_painting", "cartoon", "sketch"):
            yield _real(f"pacs{dev}", domain, "image", _SMALL, f"{domain}{dev}")
        audio = _real(f"esc50{dev}", "clean", "audio", _AUDIO, side)
        yield audio
        heard = single_shifts("audio")
        yield replace(audio, name=f"esc50{dev}-noisy", shifts=heard, severities=(5,))


def _real(series: str, way: str, query: str, source: str, part: str) -> Benchmark:
    return Benchmark(
        name=f"{series}-{way}",
        series=series,
        dataset=series.removesuffix("-dev"),
        query=query,
        gallery="text",
        source=source,
        part=part,
        severities=(),
        temperature=None,
    )


def _video_and_audio() -> Iterator[Benchmark]:
    shared = {"dataset": "audioset", "source": _CAV_MAE}
    yield from map(online, directions("audioset-o", "video", "audio", **shared))
    yield from directions("audioset-d", "video", "audio", diverse=True, **shared)
    other = {"dataset": "vggsound", "source": _CAV_MAE, "severities": ()}
    yield from directions("audioset2vgg", "video", "audio", **other)


def _composed_queries() -> Iterator[Benchmark]:
    for name, dataset, tuned in (("fiq", "fashion-iq", "FashionIQ"), ("cirr", "cirr", "CIRR")):
        row = composed(f"{name}-o", dataset, _SPRC[tuned])
        yield online(row)
        yield replace(row, name=f"{name}-d", series=f"{name}-d", diverse=True)
    yield composed("fiq2cirr", "cirr", _SPRC["FashionIQ"], severities=())
    yield composed("cirr2fiq", "fashion-iq", _SPRC["CIRR"], severities=())


def _tangram() -> Iterator[Benchmark]:
    """The embedded world; nothing is on disk, so a rule makes the sentence level.

    Online, clips and audio meet one corruption per stream, not the paper's combinations.
    """
    for task, (model, query, gallery) in TASKS.items():
        row = _of_tangram(task, model, query, gallery)
        for split in ("test", "sealed"):
            yield from _asked_three_ways(replace(row, split=split), task)
        for look in ("crayon", "products") if model == "tangram" else ():
            series = f"tangram2{look}"
            other = replace(row, name=f"{series}-{task}", series=series, part=look, severities=())
            yield replace(other, diverse=look == "products")


def _sentences() -> Iterator[Benchmark]:
    """Text to text in the embedded world: three rows of one series."""
    for task, sides in SENTENCE.items():
        for row in _asked_three_ways(_of_tangram(task, *sides), task):
            yield replace(row, series="tangram-sentence")


def _of_tangram(task: str, model: str, query: str, gallery: str) -> Benchmark:
    return Benchmark(
        name=f"tangram-o-{task}",
        series="tangram-o",
        dataset="tangram",
        query=query,
        gallery=gallery,
        source=f'the bundled model "{model}"',
        model=model,
        batch=32 if query == COMPOSED else 64,
        temperature=None,
        sentence="formal",
    )


def _asked_three_ways(row: Benchmark, task: str) -> Iterator[Benchmark]:
    """Online, diverse and clean, in the test world or in the sealed one."""
    name = "tangram" if row.split == "test" else f"tangram-{row.split}"
    ways: dict[str, dict[str, Any]] = {
        "o": {"shifts": single_shifts(row.query)},
        "d": {"diverse": True},
        "clean": {"severities": ()},
    }
    for way, wishes in ways.items():
        series = f"{name}-{way}"
        yield replace(row, name=f"{series}-{task}", series=series, **wishes)


BENCHMARKS: dict[str, Benchmark] = {
    row.name: row
    for row in chain(
        _images_and_captions(),
        _video_and_audio(),
        _composed_queries(),
        _photographs(),
        _real_clip(),
        _real_sets(),
        _tangram(),
        _sentences(),
    )
}
"""Every row by name; `find` also knows the paper's names, which may stand for two rows."""

SERIES = tuple(dict.fromkeys(row.series for row in BENCHMARKS.values()))
_OTHERS = ("tangram", "flickr8k", "real-clip", "aws", "msmarco", "pacs", "esc50")
PAPER = tuple(name for name in SERIES if not name.startswith(_OTHERS))
"""The paper's twenty."""
