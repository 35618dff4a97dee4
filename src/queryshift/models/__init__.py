"""Models people have: Hugging Face checkpoints, open_clip, and authors' own files, as encoders.

Imports: `support`, `media`, `encoders`. Start with `loading.py`, which chooses the file by format.
"""

from .loading import (
    ARCHITECTURES,
    BUNDLED,
    FORMATS,
    MODELS,
    PUBLISHED_RERANK,
    load,
    matcher,
)

__all__ = [
    "ARCHITECTURES",
    "BUNDLED",
    "FORMATS",
    "MODELS",
    "PUBLISHED_RERANK",
    "load",
    "matcher",
]
