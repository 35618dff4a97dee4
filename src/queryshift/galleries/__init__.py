"""Galleries: the candidates a query is searched among, its hits, and what is left out of them.

Imports: `support`, `media`, `encoders`. Start with `searchable.py`, what a session needs of any
gallery, then `memory.py`, exact search in this process; another engine is one more file here.
"""

from .hits import Hits, Id
from .memory import Gallery
from .searchable import Searchable

__all__ = ["Gallery", "Hits", "Id", "Searchable"]
