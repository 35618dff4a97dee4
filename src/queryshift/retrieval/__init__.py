"""One batch: its forward, its refined prediction, its re-ranking, and the answer.

Imports: `support`, `media`, `encoders`, `galleries`. Start with `forward.py`.
"""
