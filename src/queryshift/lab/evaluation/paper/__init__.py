"""The paper's result tables as data: every cell, by our names of benchmarks, shifts and methods.

`tables/` holds them as JSON. Imports nothing of `evaluation`; start with `find` in
`paper_tables.py`.
"""

from .paper_tables import (
    SEVERITY,
    TABLES,
    Column,
    PaperTable,
    Row,
    Value,
    find,
    models,
    table,
    values,
)

__all__ = [
    "SEVERITY",
    "TABLES",
    "Column",
    "PaperTable",
    "Row",
    "Value",
    "find",
    "models",
    "table",
    "values",
]
