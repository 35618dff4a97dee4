"""Readers of users' own files: any bytes under any ending are read, or refused by name."""

import io

import numpy as np
from fuzzing import attempt, fuzzed, refused
from hostile_values import ANYTHING, JSON, TEXTS, mostly
from hypothesis import strategies as st

from queryshift.lab.datasets.reading.matches import answers_by_query
from queryshift.media.item_collection import as_collection

ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".npy", ".safetensors", ".txt", ".json", ".png")
HEADERS = st.sampled_from(("id,text", "id,path", "id,vector", "text,time", "query_id,clicked", ""))
TABLES = st.builds(
    lambda header, rows: "\n".join((header, *rows)).encode("utf-8", "surrogatepass"),
    HEADERS,
    st.lists(TEXTS | st.builds("{},{}".format, TEXTS, TEXTS), max_size=3),
)
ROLES = ("id", "text", "path", "vector", "time", "match", "file_name")
LINES = st.lists(st.dictionaries(st.sampled_from(ROLES), JSON, max_size=3), max_size=3)


def array_file(values) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(values), allow_pickle=False)
    return file.getvalue()


def json_lines(rows) -> bytes:
    import json

    return "\n".join(json.dumps(row) for row in rows).encode()


NUMBERS = mostly(st.floats(-1, 1, width=16), st.floats())
ARRAYS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=3).map(array_file)
BODIES = st.one_of(st.binary(max_size=80), TABLES, LINES.map(json_lines), ARRAYS)
FILES = mostly(
    st.one_of(
        st.tuples(TABLES, st.sampled_from((".csv", ".tsv", ".txt"))),
        st.tuples(LINES.map(json_lines), st.just(".jsonl")),
        st.tuples(ARRAYS, st.just(".npy")),
    ),
    st.tuples(BODIES, st.sampled_from(ENDINGS)),
)


@fuzzed(
    share=3,
    file=FILES,
    columns=mostly(st.none(), st.dictionaries(TEXTS | st.sampled_from(ROLES), TEXTS, max_size=2)),
)
def test_any_file(file, columns, tmp_path_factory):
    body, ending = file
    path = tmp_path_factory.getbasetemp() / f"own{ending}"
    path.write_bytes(body)
    found = attempt(as_collection, path, columns)
    if not refused(found):
        assert len(found.ids) == len(found.items)
        for item in range(len(found)):
            attempt(found.items.__getitem__, item)
    attempt(answers_by_query, path, columns)


@fuzzed(given=mostly(st.dictionaries(TEXTS, ANYTHING, max_size=3), ANYTHING))
def test_any_items(given):
    attempt(as_collection, given)
    attempt(answers_by_query, given, None)


@fuzzed(
    share=0.5,
    queries=ARRAYS,
    candidates=ARRAYS,
    matches=mostly(st.just({0: [0]}), st.none() | st.dictionaries(TEXTS, JSON, max_size=2)),
    methods=mostly(st.just(["tsa"]), st.lists(TEXTS, max_size=1)),
)
def test_any_vectors_of_ones_own(queries, candidates, matches, methods, tmp_path_factory):
    from queryshift import evaluate

    folder = tmp_path_factory.getbasetemp()
    (folder / "asked.npy").write_bytes(queries)
    (folder / "there.npy").write_bytes(candidates)
    there, asked = folder / "there.npy", folder / "asked.npy"
    attempt(evaluate, None, there, asked, matches=matches, methods=["frozen", *methods])
