"""HTTP: routes, the bodies they take and give, tokens, limits, idempotency keys, the log.

Start with `routes_collections.py`, then `request_context.py` (who calls, and whether they may).
"""
