"""Galleries in Qdrant, and in Qdrant Edge (`qdrant_edge.py`)."""

from .qdrant_gallery import Qdrant, open

__all__ = ["Qdrant", "open"]
