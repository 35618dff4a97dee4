"""Models people have: Hugging Face checkpoints, open_clip, and authors' own files, as encoders.

Imports: `support`, `media`, `encoders`, `galleries`. Start with `loading.py`, which chooses the
file by format, then `blocks.py`, what most encoders here are. Captions become tokens in
`tokenising.py`, images pixels in `image_preprocessing.py`; Hugging Face checkpoints are read in
`hf.py`, authors' own files in `checkpoints.py`.
"""

from .loading import ARCHITECTURES, FORMATS, MODELS, PUBLISHED_RERANK, load, matcher

__all__ = ["ARCHITECTURES", "FORMATS", "MODELS", "PUBLISHED_RERANK", "load", "matcher"]
