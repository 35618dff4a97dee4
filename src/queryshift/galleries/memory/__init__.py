"""Galleries in memory, searched exactly. Start with `memory_gallery.py`."""

from .memory_gallery import Gallery

__all__ = ["Gallery"]
