"""Reports: tables recomputed from the ranks of finished cells, tested, beside the paper's.

`make_report.py` takes all steps: `result_tables.py` makes tables of cells (start there),
`significance_marks.py` tests differences, `paper_numbers.py` adds the paper's, and one file per
format writes them. Imports: `..results`, `..rank_metrics`, `..significance`, `..paper`.
"""

from .make_report import FORMATS, Options, render, report, report_folder
from .result_tables import Report

__all__ = ["FORMATS", "Options", "Report", "render", "report", "report_folder"]
