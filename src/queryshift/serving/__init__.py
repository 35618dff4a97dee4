"""The HTTP service: adaptation for many tenants, safe to leave running.

Imports: all rooms above; the embedded world and corruptions of `lab` by name, when they are asked
for. Start with `service.py` (all that a process serves), then `collection_service.py` and
`tenant_cache.py`. `http` has the routes, `answering` the queues before the model, `store` the
database, `page` the files of the page.
"""
