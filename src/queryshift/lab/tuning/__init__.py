"""A learning rate and a temperature for a model, from a sample of its queries.

Imports: the product and the laboratory up to `evaluation`. Start with `grid_search.py`.
"""
