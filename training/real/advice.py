"""What the rows on real sets mean to a user, in three sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from training.real.streams import Stream, beyond_chance, mean_points, row_differences

MISSPELT = "typos 10 %"
CLEAN = ("clean", "photo")  # streams of images and audio that nothing shifted
CORRECTED = {
    "frozen": "the encoder alone finds",
    "default": "the default session",
    "spelling+frozen": "spelling correction and the encoder",
    "spelling+default": "spelling correction and the default session",
}


def meaning(some: Sequence[Stream]) -> str:
    """The sentences, as far as the rows for them were run."""
    aws = [stream for stream in some if stream.series == "aws"]
    others = [stream for stream in some if stream.series not in ("aws", "msmarco")]
    found = [*_without_typos(aws), *_with_typos(aws), *_other_media(others)]
    return "\n".join(f"- {sentence}" for sentence in found) or "Our default was not run."


def _without_typos(aws: Sequence[Stream]) -> Iterator[str]:
    """What the default gives to queries that are spelt correctly, and hub correction alone."""
    some = [stream for stream in aws if not stream.name.startswith(("typos", "half"))]
    against = row_differences(some, "default", "frozen")
    if against:
        models = len({stream.model for stream in some if "default" in stream.rows})
        pays = mean_points(against) > 0
        advice = "Turn it on for" if pays else "Do not turn it on for"
        above, below = beyond_chance(against)
        yield (
            f"**{advice} queries without typos**: on AWS documentation its recall@1 is "
            f"{mean_points(against):+.1f} points against the encoder alone on average of "
            f"{_counted(len(against), 'stream')} with {_counted(models, 'encoder')} (beyond "
            f"chance above it in {above}, below it in {below}){_by_hubs(some)}."
        )


def _by_hubs(some: Sequence[Stream]) -> str:
    """How much of that hub correction gives alone."""
    against = row_differences(some, "frozen+hubs", "frozen")
    if not against:
        return ""
    return (
        "; hub correction alone, which works without access to the encoder, has "
        f"{mean_points(against):+.1f}"
    )


def _with_typos(aws: Sequence[Stream]) -> Iterator[str]:
    """What the default gives to misspelt queries, and what correcting them first does."""
    some = [stream for stream in aws if stream.name == MISSPELT and "default" in stream.rows]
    names = [name for name in CORRECTED if all(name in stream.rows for stream in some)]
    if some and any(name.startswith("spelling") for name in names):
        means = {name: np.mean([stream.measure(name) for stream in some]) for name in names}
        figures = ", ".join(f"{CORRECTED[name]} {value:.1f} %" for name, value in means.items())
        yield (
            "**Correct the spelling of misspelt queries first**: of queries with typos in 10 % of "
            f"their letters (mean of {_counted(len(some), 'encoder')}), {figures}."
        )


def _other_media(some: Sequence[Stream]) -> Iterator[str]:
    """How often the default helps images, their captions and audio."""
    parts = []
    for kind in ("shifted", "clean"):
        own = [stream for stream in some if (stream.name in CLEAN) == (kind == "clean")]
        against = row_differences(own, "default", "frozen")
        if against:
            above, below = beyond_chance(against)
            streams = f"{above} of {_counted(len(against), f'{kind} stream')}"
            parts.append(f"above the encoder alone in {streams}, below it in {below}")
    if parts:
        yield (
            "**With images and audio, measure first**: beyond chance, the default is "
            f"{'; '.join(parts)}."
        )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
