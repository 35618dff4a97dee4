"""Galleries: the candidates a query is searched among, its hits, and what is left out of them.

Imports: `support`, `media`, `encoders`. Start with `searchable.py`, what a session needs of any
gallery, then `memory/`, exact search in this process, and `engine.py`, what all search engines
share; each engine has a file or a folder.
"""

from .engine import EngineGallery
from .hits import Hits, Id
from .memory.memory_gallery import Gallery
from .searchable import Searchable
from .seen_candidates import Found

__all__ = ["EngineGallery", "Found", "Gallery", "Hits", "Id", "Searchable"]
