"""Galleries in PostgreSQL with pgvector."""

from .postgres_gallery import Postgres, create, open

__all__ = ["Postgres", "create", "open"]
