"""Galleries in PostgreSQL with pgvector."""

from .postgres_gallery import Postgres, open

__all__ = ["Postgres", "open"]
