"""Run benchmarks: plan cells, share models and galleries between them, and resume.

`plans.py` says which cells, `resume.py` runs them and keeps their results; start there.
`context.py` is all that a process keeps from cell to cell.
"""

from .plans import Choices, Plan, Task, plans_for
from .resume import Ran, run_all

__all__ = ["Choices", "Plan", "Ran", "Task", "plans_for", "run_all"]
