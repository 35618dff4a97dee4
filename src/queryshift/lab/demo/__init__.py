"""The demo: a shifted stream with and without adaptation, as numbers and as a page.

Imports: the product and the laboratory up to `evaluation`. Start with `running.py`.
"""

from .page import place_for, write
from .plan import Plan, shifts
from .running import Demo, Row, demonstrate

__all__ = ["Demo", "Plan", "Row", "demonstrate", "place_for", "shifts", "write"]
