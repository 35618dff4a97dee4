"""serve.toml has the defaults of its page, and each field takes its smallest and largest value."""

import json
import re
from pathlib import Path

import pytest

from queryshift import Error
from queryshift.serving.settings import ServeSettings, read_settings

PAGE = (Path(__file__).parents[2] / "docs" / "serve-toml.md").read_text(encoding="utf-8")
TOKEN = f'[[tokens]]\nname = "shop"\nsha256 = "{"0" * 64}"\nscopes = ["read"]\n'
PARTS = {  # of the page: what has its fields
    "At the top": lambda read: read,
    "[collections.NAME]": lambda read: read.collections["shop"],
    "[limits]": lambda read: read.limits,
    "[queues]": lambda read: read.queues,
    "[tenants]": lambda read: read.tenants,
    "[[tokens]]": lambda read: read.tokens[0],
}
ROW = re.compile(r"^\| `(\w+)` \| `?([^|`]+)`? \|", re.M)
BOUNDS = [  # table, field, the least and the most that it takes, and what it does not
    ("", "port", (0, 65535), (-1, 65536)),
    ("", "threads", (1,), (0,)),
    ("", "drain_seconds", (0,), (-1,)),
    ("collections.shop", "candidates", (16,), (15,)),
    ("collections.shop", "gather", (2, 1024), (1, 1025)),
    ("collections.shop", "keep_queries", (0, 1000), (-1, 1001)),
    ("limits", "body_bytes", (1024,), (1023,)),
    ("limits", "header_bytes", (1024,), (1023,)),
    ("limits", "header_lines", (10,), (9,)),
    ("limits", "exclude", (0,), (-1,)),
    *(("limits", name, (0.001,), (0,)) for name in ("body_seconds", "seconds")),
    *(
        ("limits", name, (1,), (0,))
        for name in ("connections", "pixels", "characters", "queries", "hits")
    ),
    *(("limits", name, (1,), (0,)) for name in ("hits_in_all", "clicks")),
    *(("queues", name, (1,), (0,)) for name in ("batch", "batch_of_tenant", "updates_of_tenant")),
    ("queues", "learning_share", (0.001, 1), (0, 1.001)),
    ("queues", "gathered_bytes", (1_048_576,), (1_048_575,)),
    ("tenants", "history", (10,), (9,)),
    *(("tenants", name, (1,), (0,)) for name in ("loaded", "known", "feedback_requests")),
    *(("tenants", name, (1,), (0,)) for name in ("snapshots", "save_batches")),
    *(("tenants", name, (0.001,), (0,)) for name in ("save_seconds", "keep_days")),
    ("tokens", "rate", (0.001,), (0,)),
    ("tokens", "burst", (1,), (0,)),
]


def read(folder, toml: str) -> ServeSettings:
    (folder / "serve.toml").write_text(toml)
    return read_settings(folder / "serve.toml")


@pytest.mark.parametrize("part", PARTS)
def test_defaults_are_those_of_the_page(part, tmp_path):
    given = PARTS[part](read(tmp_path, f"{TOKEN}[collections.shop]\n"))
    section = PAGE.partition(f"## {part}\n")[2].partition("\n## ")[0]
    rows = dict(ROW.findall(section))
    assert rows.keys() == type(given).model_fields.keys()
    plain = given.model_dump(mode="json")
    for name, told in rows.items():
        if told not in ("needed", "a table") and name != "tokens":
            assert plain[name] == (None if told == "none" else json.loads(told)), name


def test_there_are_no_tokens_by_default_and_one_needs_its_fields(tmp_path):
    assert read(tmp_path, "").tokens == [] and "| `tokens` | `[]` |" in PAGE
    for name in ("name", "sha256", "scopes"):
        without = "\n".join(line for line in TOKEN.splitlines() if not line.startswith(name))
        with pytest.raises(Error, match=rf"tokens\.0\.{name}"):
            read(tmp_path, without)


@pytest.mark.parametrize(
    ("table", "field", "taken", "refused"), BOUNDS, ids=[f"{one[0]}.{one[1]}" for one in BOUNDS]
)
def test_each_field_takes_what_it_can_use_and_no_more(table, field, taken, refused, tmp_path):
    head = f"[{table}]\n" if table else ""
    head = TOKEN if table == "tokens" else head
    for value in taken:
        read(tmp_path, f"{head}{field} = {value}")
    for value in refused:
        with pytest.raises(Error, match=rf"{field} is {value}: "):
            read(tmp_path, f"{head}{field} = {value}")


@pytest.mark.parametrize("field", ["waiting", "waiting_of_tenant"])
def test_one_query_may_wait_where_a_request_has_no_more(field, tmp_path):
    assert read(tmp_path, f"[limits]\nqueries = 1\n[queues]\n{field} = 1")
    with pytest.raises(Error, match=f"{field} is 0"):
        read(tmp_path, f"[limits]\nqueries = 1\n[queues]\n{field} = 0")
