"""Hub correction: candidates that are near to every query of a stream are set back.

Start with `hub_correction.py`. `query_bank.py` has the latest queries and running sums over them,
`engine_sums.py` the sums where only the hits of an engine are corrected.
"""
