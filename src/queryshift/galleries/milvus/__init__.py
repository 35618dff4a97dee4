"""Galleries in Milvus."""

from .milvus_gallery import Milvus, open

__all__ = ["Milvus", "open"]
