"""Galleries: the candidates that queries search, the hits, and exclusions.

Imports: `support`, `media`, `encoders`. Start with `searchable.py`, the interface that sessions
use, then `memory/`, exact search in this process, and `engine.py`, the base class of search
engines; each engine has a file or a folder.
"""

from .engine import EngineGallery
from .hits import Hits, Id
from .memory.memory_gallery import Gallery
from .searchable import Searchable
from .seen_candidates import Found

__all__ = ["EngineGallery", "Found", "Gallery", "Hits", "Id", "Searchable"]
