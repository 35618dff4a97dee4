"""Embedded galleries kept on disk between runs, under the model's fingerprint and a hash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from queryshift.encoders.encoder import Encoder
from queryshift.errors import BadFile
from queryshift.galleries import Gallery
from queryshift.media.lazy_items import Composed, LazyItems
from queryshift.support.progress import track

GALLERY_BATCH = 256


def embedded(encoder: Encoder, items: Sequence[Any], folder: Path) -> tuple[Gallery, str]:
    """The gallery of these items, from `folder` if it is there already, and a hash of them."""
    hashed = content_hash(items)
    path = folder / f"{encoder.fingerprint()[:16]}-{hashed}.safetensors"
    try:
        return Gallery.load(path), hashed
    except BadFile:  # not there, or damaged: it is made again
        gallery = Gallery.build(encoder, items, batch_size=GALLERY_BATCH)
        gallery.save(path)
        return gallery.to("cpu"), hashed


def content_hash(items: Sequence[Any]) -> str:
    """A short hash of the items' content; if each has its own files, of the bytes on disk."""
    digest = blake2b(digest_size=8)
    for piece in track(_pieces(items), "looking at the items"):
        digest.update(len(piece).to_bytes(8, "big"))
        digest.update(piece)
    return digest.hexdigest()


def _pieces(items: Any) -> Iterator[bytes]:
    if isinstance(items, LazyItems) and _files_differ(items):
        for source in items.sources:
            yield from (file.read_bytes() for file in source.files)
            if isinstance(source, Composed):
                yield source.text.encode()
    elif isinstance(items, str):
        yield items.encode()
    elif isinstance(items, list | tuple | LazyItems):
        for item in items:
            yield from _pieces(item)
    else:
        values = np.asarray(getattr(items, "samples", items))
        yield f"{values.shape}{values.dtype}{getattr(items, 'rate', '')}".encode()
        yield values.tobytes()


def _files_differ(items: LazyItems) -> bool:
    """Whether each item has files of its own: not so in Fashion-Gen's one file, or in a table."""
    alone = [source.files for source in items.sources if not isinstance(source, Composed)]
    return all(alone) and len(set(alone)) == len(alone)
