"""Datasets: each gives queries, candidates, and who matches whom."""

from .base import Dataset

__all__ = ["Dataset"]
