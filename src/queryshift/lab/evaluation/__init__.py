"""Benchmarks, streams, the runner, metrics, results, significance, reports, the paper's tables.

Imports: the product, `corruptions`, `tangram`, `datasets`. Start with `benchmarks.py`.
"""
