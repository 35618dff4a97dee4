"""A user's own model, data and traffic: what adaptation does to them, with labels and without.

Imports: the product and the laboratory up to `demo`. Start with `evaluate.py`; `traffic.py` holds
the queries, `replay.py` runs them, `label_free_verdict.py` gives advice without labels.
"""
