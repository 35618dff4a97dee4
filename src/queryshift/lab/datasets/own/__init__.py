"""A user's own queries, candidates and right answers, read from the files people have."""

from .answers import answers_by_query, partners
from .collection import Collection, as_collection, read_collection

__all__ = ["Collection", "answers_by_query", "as_collection", "partners", "read_collection"]
