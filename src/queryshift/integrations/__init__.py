"""Retrievers for other libraries over a session; each needs the extra of its name.

Imports: `sessions` and the rooms above it. Start with `lookup.py`, which finds documents for a
query; `langchain.py` and `llama_index.py` return them in their library's classes.
"""
