"""Runs: which cells of a benchmark are wanted, what they stand on, and how they are worked off."""

from .cells import Task, work
from .plans import Plan, plans_for
from .prepared_benchmark import Choices, PreparedBenchmark, prepare
from .running import Execute, Ran, in_processes, in_turn, run_all

__all__ = [
    "Choices",
    "Execute",
    "Plan",
    "PreparedBenchmark",
    "Ran",
    "Task",
    "in_processes",
    "in_turn",
    "plans_for",
    "prepare",
    "run_all",
    "work",
]
