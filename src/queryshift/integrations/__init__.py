"""Retrievers of other libraries over a session; each needs the extra of its name.

Imports: `sessions` and the rooms above it. Start with `lookup.py`, from a query to documents;
`langchain.py` and `llama_index.py` put what it gives in their library's own classes.
"""
