"""Sentence-level corruptions by rule: offline, English only, unchanged where a rule is unsure.

A file per change (`formal.py`, `casual.py`, `passive.py`, `active.py`; start with `passive.py`)
over shared grammar. Imports: `..inflection`.
"""
