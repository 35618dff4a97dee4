"""The demo: a shifted stream with and without adaptation, as numbers and as a page.

Imports: the product and the laboratory up to `evaluation`. Start with `run_demo.py`; `demo_page.py`
writes the page.
"""
