"""The first schema: tenants and all that belongs to them.

Later files only add tables, and columns with a default, so that processes of this version and of
the next may run side by side while they are replaced one by one.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "v1"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    _tenants()
    _learnt()
    _counted()
    _others()


def _tenants() -> None:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")  # in the same order as here
    op.create_table(
        "tenants",
        sa.Column("id", number, primary_key=True, autoincrement=True),
        sa.Column("collection", sa.Text, nullable=False),
        sa.Column("name", name, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False, server_default="1"),
        sa.Column("mode", sa.Text, nullable=False),
        *(
            sa.Column(name, sa.BigInteger, nullable=False, server_default="0")
            for name in ("queries", "batches", "updates", "drops", "resets")
        ),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("last_seen", sa.Double, nullable=False),
        sa.Column("saved_by", sa.Text, nullable=False, server_default=""),
        sa.UniqueConstraint("collection", "name"),
        sqlite_autoincrement=True,  # the number of a deleted tenant is given to no other
    )


def _learnt() -> None:
    op.create_table("states", _tenant(), *_state())
    op.create_table(
        "snapshots",
        _tenant(),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("time", sa.Text, nullable=False),
        sa.Column("batches", sa.BigInteger, nullable=False),
        *_state(),
    )


def _counted() -> None:
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    batch = sa.Column("batch", sa.BigInteger, primary_key=True)
    op.create_table("history", _tenant(), batch, *_dated())
    event = sa.Column("id", number, primary_key=True, autoincrement=True)
    op.create_table("events", event, _tenant(primary_key=False), *_dated())
    op.create_table(
        "clicks",
        _tenant(),
        *(
            sa.Column(name, sa.BigInteger, primary_key=True)
            for name in ("day", "source", "adapted")
        ),
        sa.Column("times", sa.BigInteger, nullable=False),
    )


def _others() -> None:
    op.create_table(
        "idempotency_keys",
        *(sa.Column(name, sa.Text, primary_key=True) for name in ("caller", "path", "name")),
        sa.Column("collection", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("answer", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.Double, nullable=False, index=True),
    )
    op.create_table(
        "collections",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("ordinary", sa.Text, nullable=False),
    )


def _dated() -> list[sa.Column[float] | sa.Column[str]]:
    """JSON, and when it was written."""
    return [
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    ]


def _tenant(primary_key: bool = True) -> sa.Column[int]:
    """Whose row it is: it goes when the tenant goes."""
    whose = sa.ForeignKey("tenants.id", ondelete="CASCADE")
    return sa.Column(
        "tenant_id",
        sa.BigInteger,
        whose,
        primary_key=primary_key,
        nullable=False,
        index=not primary_key,
    )


def _state() -> list[sa.Column[str] | sa.Column[bytes]]:
    """A state, and what it was learnt with."""
    named = [sa.Column(name, sa.Text, nullable=False) for name in ("encoder", "gallery")]
    return [*named, sa.Column("content", sa.LargeBinary, nullable=False)]
