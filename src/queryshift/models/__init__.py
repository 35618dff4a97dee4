"""Encoders for published models: Hugging Face checkpoints, open_clip, and authors' own files.

Imports: `support`, `media`, `encoders`, `galleries`. Start with `loading.py`, which chooses a file
by format, then `blocks.py`, the base class of most encoders. `tokenising.py` turns captions into
tokens, `image_preprocessing.py` images into pixels; `hf.py` reads Hugging Face checkpoints,
`checkpoints.py` authors' own files.
"""

from .loading import ARCHITECTURES, FORMATS, MODELS, PUBLISHED_RERANK, load, matcher

__all__ = ["ARCHITECTURES", "FORMATS", "MODELS", "PUBLISHED_RERANK", "load", "matcher"]
