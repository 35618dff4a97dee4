"""AudioSet and VGGSound, as listed for retrieval by CAV-MAE (Gong et al., 2023)."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from queryshift.media.lazy_items import AudioFile, Clip, LazyItems

from .dataset import Dataset
from .known_datasets import DATASETS
from .reading.reader import TEXT, find_file, read_json, records

AUDIO = "audio"  # the folder of audio files whose listed place is on the authors' machine


def read(name: str, root: Path, part: str, query: str) -> Dataset:
    """Videos that search audio, or audio that searches videos: clips of a JSON list.

    Each has frames in `frame_0` to `frame_9`, and a waveform.
    """
    path = find_file(root, *DATASETS[name].annotations)
    content = read_json(path)
    listed = records(
        path,
        content.get("data") if isinstance(content, dict) else content,
        video_id=TEXT,
        wav=TEXT,
        video_path=TEXT,
    )
    seen = LazyItems([Clip(_frames(root, each), each["video_id"]) for each in listed])
    heard = LazyItems([AudioFile(_audio(root, each)) for each in listed])
    names = [each["video_id"] for each in listed]
    queries, candidates = (seen, heard) if query == "video" else (heard, seen)
    return Dataset(
        name,
        query,
        "audio" if query == "video" else "video",
        queries=queries,
        query_ids=names,
        candidates=candidates,
        matches=[(row,) for row in range(len(listed))],
        candidate_ids=names,
        labels=[each.get("labels", "") for each in listed],
        counts={"videos": len(listed), "audio": len(listed), "pairs": len(listed)},
    )


def _frames(root: Path, record: dict[str, Any]) -> Path:
    """The listed folder, relative to `root`, if it is there; else `root` itself."""
    listed = root / record["video_path"]
    return listed if listed.is_dir() else root


def _audio(root: Path, record: dict[str, Any]) -> Path:
    """The listed file, relative to `root`, if it is there; else one of that name in `audio`.

    AudioSet's list names FLAC files; the WAV files of `queryshift data frames` will do too.
    """
    named = root / AUDIO / PurePosixPath(record["wav"]).name
    places = (root / record["wav"], named, named.with_suffix(".wav"))
    return next((place for place in places if place.is_file()), named)
