"""The HTTP service: adaptation for many tenants, safe to leave running.

Imports: all rooms above; the embedded world and corruptions of `lab` by name, when they are asked
for. Start with `tenants.py` (who owns a tenant's session), then `app.py` and `routes_search.py`.
`answering.py` and `learning.py` are the two queues before the model; `store` is the database.
"""
