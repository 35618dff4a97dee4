"""Galleries in Milvus."""

from .milvus_gallery import Milvus, create, open

__all__ = ["Milvus", "create", "open"]
