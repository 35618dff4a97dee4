"""Tenants in a database: SQLite for one process, PostgreSQL for several.

Start with `tenant_rows.py` (what is written of a tenant, and when a write is refused), then
`database.py`. `schema.py` brings a database up to date with the files of `migrations`.
"""
