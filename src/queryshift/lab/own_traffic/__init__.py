"""A user's own model, data and traffic: what adaptation does to them, with labels and without.

Imports: the product and the laboratory up to `demo`. Start with `evaluate.py`; `traffic.py` holds
what is asked, `replay.py` asks it, `label_free.py` judges without labels, `page.py` writes a page.
"""
