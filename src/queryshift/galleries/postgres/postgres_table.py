"""A table with a pgvector column: what it is, and the statements that search it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from queryshift.errors import BadInput, GalleryMismatch
from queryshift.support.optional import need

from ..model_origin import ModelOrigin

OPERATORS = {"cosine": "<=>", "ip": "<#>", "l2": "<->"}
LARGE = 1_000_000  # rows above which a sample is drawn from a part of them
WHOLE = ("smallint", "integer", "bigint")
TEXTS = ("text", "character varying")

COLUMNS = """
    SELECT a.attname, a.atttypid::regtype::text, a.atttypmod, c.relkind::text, c.reltuples
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""
INDEXES = """
    SELECT m.amname, o.opcname
    FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
    JOIN pg_opclass o ON o.oid = i.indclass[0]
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = to_regclass(%s) AND a.attname = %s AND m.amname IN ('hnsw', 'ivfflat')
        AND i.indisvalid AND i.indpred IS NULL
"""
COMMENT = "SELECT obj_description(to_regclass(%s), 'pg_class')"
SEARCH = """
    SELECT query.place, hit.id, hit.vector
    FROM unnest(%s::text[]::{type}[]) WITH ORDINALITY AS query(vector, place)
    CROSS JOIN LATERAL (
        SELECT {id} AS id, {vector}::vector AS vector, {vector} {operator} query.vector AS distance
        FROM {table} WHERE {vector} IS NOT NULL
        ORDER BY {vector} {operator} query.vector LIMIT %s
    ) AS hit
    ORDER BY query.place, hit.distance
"""
SAMPLE = """
    SELECT vector FROM (
        SELECT {order} AS place, {vector}::vector AS vector FROM {table} {part}
        WHERE {vector} IS NOT NULL
        ORDER BY hashtextextended({id}::text, %s) LIMIT %s
    ) AS drawn ORDER BY place
"""


@dataclass(frozen=True)
class Table:
    """What is known of a table, and its statements; names are quoted, values are parameters."""

    names: dict[str, Any]  # table, vector, id: quoted
    type: str  # of the vectors' column: vector or halfvec
    dimension: int
    metric: str
    index: str  # hnsw, ivfflat, or nothing
    whole_ids: bool
    stored: bool  # as rows of its own, and not a view or several tables
    large: bool
    origin: ModelOrigin | None  # from the table's comment

    def search(self) -> Any:
        """Hits of an array of queries: (place from 1, id, vector), nearest first."""
        return self._filled(SEARCH, type=self.type, operator=OPERATORS[self.metric])

    def sample(self) -> Any:
        """Vectors drawn by a hash of their ids, in the order of the rows; of many, from 5 %."""
        part = "TABLESAMPLE BERNOULLI (5)" if self.stored and self.large else ""
        return self._filled(SAMPLE, part=part, **({"order": "ctid"} if self.stored else {}))

    def count(self) -> Any:
        """The number of rows with a vector."""
        return self._filled("SELECT count(*) FROM {table} WHERE {vector} IS NOT NULL")

    def version(self) -> Any:
        """The number of rows with a vector, and the sum of the transactions that wrote them.

        A later transaction has a larger number, so that an update makes the sum larger; rows of a
        view have none.
        """
        written = "sum(xmin::text::bigint)" if self.stored else "0"
        return self._filled(
            "SELECT count(*), {written} FROM {table} WHERE {vector} IS NOT NULL", written=written
        )

    def known(self) -> Any:
        """The ids among an array of ids."""
        kind = "bigint" if self.whole_ids else "text"
        return self._filled("SELECT {id} FROM {table} WHERE {id} = ANY(%s::{kind}[])", kind=kind)

    def _filled(self, statement: str, **words: str) -> Any:
        sql = need("psycopg.sql", "postgres", "a gallery in PostgreSQL")
        plain = {name: sql.SQL(word) for name, word in words.items()}
        return sql.SQL(statement).format(**{"order": self.names["id"], **self.names, **plain})


def describe(
    execute: Callable[..., list[tuple[Any, ...]]], table: str, vector: str, id: str
) -> Table:
    """Look a table up, or refuse it with what to do."""
    sql = need("psycopg.sql", "postgres", "a gallery in PostgreSQL")
    _check_version(execute)
    name = sql.Identifier(*table.split("."))
    quoted = name.as_string()
    columns = {row[0]: row[1:] for row in execute(COLUMNS, (quoted,))}
    _check_columns(columns, table, vector, id)
    kind, modifier, relation, rows = columns[vector]
    names = {"table": name, "vector": sql.Identifier(vector), "id": sql.Identifier(id)}
    index, operators = next(iter(execute(INDEXES, (quoted, vector))), ("", "vector_cosine_ops"))
    if columns[id][0] not in (*WHOLE, *TEXTS):
        names["id"] = sql.SQL("{}::text").format(names["id"])
    return Table(
        names=names,
        type=kind,
        dimension=modifier if modifier > 0 else _first_dimension(execute, names, table),
        metric=operators.split("_")[1],
        index=index,
        whole_ids=columns[id][0] in WHOLE,
        stored=relation in ("r", "m"),
        large=rows > LARGE,
        origin=ModelOrigin.from_comment(execute(COMMENT, (quoted,))[0][0]),
    )


def _check_version(execute: Any) -> None:
    """Refuse a server without a pgvector that scans on until enough rows are found."""
    versions = execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    if not versions:
        raise BadInput("this database has no pgvector: CREATE EXTENSION vector.")
    version = versions[0][0]
    if [int(part) for part in re.findall(r"\d+", version)[:2]] < [0, 8]:
        raise BadInput(
            f"this database has pgvector {version}, expected 0.8 or later, which finds as many "
            "rows as asked for: install it, then ALTER EXTENSION vector UPDATE."
        )


def _check_columns(columns: dict[str, Any], table: str, vector: str, id: str) -> None:
    if not columns:
        raise BadInput(f'no table "{table}" in this database: correct "table" in the address.')
    for option, name in (("vector", vector), ("id", id)):
        if name not in columns:
            raise BadInput(
                f'table "{table}" has no column "{name}"; its columns: {", ".join(columns)}: '
                f'name the right one as "{option}".'
            )
    kind = columns[vector][0].rpartition(".")[2]
    if kind not in ("vector", "halfvec"):
        raise GalleryMismatch(
            f'column "{vector}" of table "{table}" has the type {kind}, expected vector or '
            "halfvec of pgvector: name another column."
        )


def _first_dimension(execute: Any, names: dict[str, Any], table: str) -> int:
    sql = need("psycopg.sql", "postgres", "a gallery in PostgreSQL")
    statement = "SELECT vector_dims({vector}) FROM {table} WHERE {vector} IS NOT NULL LIMIT 1"
    rows = execute(sql.SQL(statement).format(**names))
    if not rows:
        raise BadInput(f'table "{table}" has no vectors: fill it before a session uses it.')
    return int(rows[0][0])
