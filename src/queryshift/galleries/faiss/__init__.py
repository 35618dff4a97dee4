"""Galleries in a FAISS index file."""

from .faiss_gallery import Faiss, create, open, write_index

__all__ = ["Faiss", "create", "open", "write_index"]
