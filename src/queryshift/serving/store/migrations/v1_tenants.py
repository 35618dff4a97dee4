"""The first schema: tenants and all that belongs to them.

Later files only add tables, and columns with a default, so that processes of this version and of
the next may run side by side while they are replaced one by one.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "v1"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    in_order = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")  # of bytes, as here
    op.create_table(
        "tenants",
        _number_of_row(),
        _column("collection"),
        _column("name", in_order),
        _column("version", sa.BigInteger, server_default="1"),
        _column("mode"),
        *_counts("queries", "batches", "updates", "drops", "resets", server_default="0"),
        _column("created", sa.Double),
        _column("last_seen", sa.Double),
        _column("saved_by", server_default=""),
        sa.UniqueConstraint("collection", "name"),
        sqlite_autoincrement=True,  # the number of a deleted tenant is given to no other
    )
    state = ("encoder", sa.Text), ("gallery", sa.Text), ("content", sa.LargeBinary)
    op.create_table("states", _tenant(), *(_column(*one) for one in state))
    op.create_table(
        "snapshots",
        _tenant(),
        _column("name", primary_key=True),
        _column("time"),
        *_counts("batches"),
        *(_column(*one) for one in state),
    )
    dated = ("at", sa.Double), ("content", sa.Text)  # JSON, and when it was written
    batch = _counts("batch", primary_key=True)
    op.create_table("history", _tenant(), *batch, *(_column(*one) for one in dated))
    whose = _tenant(primary_key=False)
    op.create_table("events", _number_of_row(), whose, *(_column(*one) for one in dated))
    ranks = _counts("day", "source", "adapted", primary_key=True)
    op.create_table("clicks", _tenant(), *ranks, *_counts("times"))
    op.create_table(
        "idempotency_keys",
        *(_column(name, primary_key=True) for name in ("caller", "path", "name")),
        *(_column(name) for name in ("collection", "tenant")),
        *(_column(name, sa.LargeBinary) for name in ("body", "answer")),
        _column("at", sa.Double, index=True),
    )
    named = _column("name", primary_key=True)
    op.create_table("collections", named, *_counts("version"), _column("ordinary"))


def _column(name: str, kind: Any = sa.Text, **more: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, **more)


def _counts(*names: str, **more: Any) -> list[sa.Column[Any]]:
    return [_column(name, sa.BigInteger, **more) for name in names]


def _number_of_row() -> sa.Column[Any]:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return _column("id", number, primary_key=True, autoincrement=True)


def _tenant(primary_key: bool = True) -> sa.Column[Any]:
    """Whose row it is: it goes when the tenant goes."""
    whose = sa.ForeignKey("tenants.id", ondelete="CASCADE")
    more: dict[str, Any] = {"primary_key": primary_key, "index": not primary_key}
    return sa.Column("tenant_id", sa.BigInteger, whose, nullable=False, **more)
