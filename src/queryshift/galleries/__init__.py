"""Galleries: the candidates a query is searched among."""

from .hits import Hits, Id
from .memory import Gallery
from .searchable import Searchable

__all__ = ["Gallery", "Hits", "Id", "Searchable"]
