"""Run benchmarks: plan cells, share models and galleries between them, and resume.

`plans.py` says which cells, `resume.py` runs them and keeps their results; start there.
`context.py` is all that a process keeps from cell to cell.
"""
