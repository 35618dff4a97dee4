"""`evaluate` on a user's own files: recall, order, resumption after kill -9, the page."""

import json
import time

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import queryshift as qs
from forked_commands import start
from queryshift.cli import main
from queryshift.errors import BadInput, UnknownName
from queryshift.lab import tangram
from queryshift.lab.evaluation.pages.method_legend import COLOURS
from queryshift.lab.own_traffic.evaluation_page import html
from queryshift.lab.own_traffic.replay import replay, session_of
from queryshift.lab.own_traffic.traffic import traffic

COUNT = 48


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Products with captions, and a log of queries with time stamps and clicks, out of order."""
    folder = tmp_path_factory.mktemp("own")
    scenes = tangram.scenes("dev", COUNT)
    texts = [tangram.captions(scene)[:2] for scene in scenes]
    products = [{"sku": f"p{row}", "title": both[0]} for row, both in enumerate(texts)]
    (folder / "products.jsonl").write_text("\n".join(map(json.dumps, products)))
    asked = [
        {"id": 100 + row, "time": (7 * row) % COUNT, "query": both[1], "clicked": f"p{row}"}
        for row, both in enumerate(texts)
    ]
    asked.append({"id": 999, "time": COUNT, "query": "a red square", "clicked": "deleted"})
    (folder / "log.jsonl").write_text("\n".join(map(json.dumps, asked)))
    return folder


def arguments(log, results, *more):
    files = ["--gallery", str(log / "products.jsonl"), "--queries", str(log / "log.jsonl")]
    rest = ["--column", "id=sku", "--batch", "16", "--results", str(results)]
    return ["evaluate", "--model", "tangram", *files, *rest, *more]


def columns_of(log):
    """The queries have an id, the products a sku: both are ids."""
    rows = [json.loads(line) for line in (log / "log.jsonl").read_text().splitlines()]
    return sorted(rows, key=lambda row: row["time"])


def test_the_log_is_replayed_in_its_order_and_recall_is_the_models_own(log):
    done = qs.evaluate(
        "tangram",
        log / "products.jsonl",
        log / "log.jsonl",
        columns={"id": "sku"},
        methods=["frozen"],
        batch_size=16,
    )
    ordered = columns_of(log)
    assert list(done.traffic.queries.items) == [row["query"] for row in ordered]
    assert len(done.traffic.counted) == COUNT  # the deleted product is passed over
    text = qs.load("tangram")["text"]
    products = [json.loads(line) for line in (log / "products.jsonl").read_text().splitlines()]
    scores = text.encode([row["query"] for row in ordered[:COUNT]]) @ (
        text.encode([row["title"] for row in products]).T
    )
    right = [int(row["clicked"][1:]) for row in ordered[:COUNT]]
    hits = np.mean([int(scores[row].argmax()) == place for row, place in enumerate(right)])
    assert done.rows[0].measures["recall@1"] == pytest.approx(100 * hits, abs=1e-3)
    assert done.rows[0].forwards_per_query == 1.0


def test_a_killed_evaluation_goes_on_without_repeating_what_is_finished(log, tmp_path):
    results = tmp_path / "results.jsonl"
    command = arguments(log, results, "-m", "tent", "-m", "shot", "--json")
    child = start(*command)
    deadline = time.monotonic() + 120
    while not (results.is_file() and results.read_bytes().count(b"\n")):
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.01)
    child.kill()
    child.wait()
    before = results.read_bytes().splitlines()[0]
    with results.open("ab") as file:
        file.write(b'{"format": 2, "half')  # what a crash may leave
    ran = CliRunner().invoke(main, command)
    assert ran.exit_code == 0, ran.output
    methods = [row["method"] for row in json.loads(ran.stdout)["methods"]]
    assert methods == ["frozen", "tent", "shot"]
    lines = results.read_bytes().splitlines()
    assert lines[0] == before and len(lines) == 3
    again = CliRunner().invoke(main, command)
    assert json.loads(again.stdout) == json.loads(ran.stdout)
    assert results.read_bytes().splitlines() == lines


def test_what_was_run_with_other_batches_or_queries_is_not_taken_for_finished(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)

    def kept(queries, batch_size, method="frozen"):
        right = {row: [row] for row in range(len(queries))}
        done = qs.evaluate(
            None,
            list(vectors),
            list(queries),
            matches=right,
            methods=[method],
            batch_size=batch_size,
            results=tmp_path / "results.jsonl",
        )
        return done.kept

    assert [kept(vectors, 4), kept(vectors, 4)] == [0, 1]
    assert [kept(vectors, 5), kept(vectors, 5), kept(vectors, 4)] == [0, 1, 1]
    assert [kept(vectors[:9], 4), kept(vectors[:9], 4)] == [0, 1]


def test_the_command_goes_on_from_what_the_function_kept_and_neither_is_told_more(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(70, 8)).astype(np.float32)
    for name in ("gallery", "queries"):
        np.save(tmp_path / f"{name}.npy", vectors)
    right = {str(row): [str((row + (row % 3 > 0)) % 70)] for row in range(69)}
    (tmp_path / "matches.json").write_text(json.dumps(right))
    files = {name: tmp_path / f"{name}.npy" for name in ("gallery", "queries")}
    files["matches"] = tmp_path / "matches.json"
    files["results"] = tmp_path / "results.jsonl"
    done = qs.evaluate(None, **files)
    assert done.rows[0].measures["recall@1"] == 33.3333
    assert done.as_dict()["model"] == "vectors"
    command = ["evaluate", *(f"--{name}={path}" for name, path in files.items())]
    assert "2 methods were kept from before" in CliRunner().invoke(main, command).output
    assert len(files["results"].read_bytes().splitlines()) == 2


@pytest.mark.parametrize("methods", [(), ("frozen+hubs", "tent")])
def test_an_encoder_without_norm_layers_is_compared_with_hub_correction_alone(methods):
    class Plain(qs.Encoder):
        def prepare(self, items):
            return torch.tensor([[len(item), item.count("a")] for item in items]).float()

        def forward(self, prepared):
            return torch.nn.functional.normalize(prepared, dim=1)

    texts = ["a", "bb a", "ccc aa a"]
    right = {row: [row] for row in range(3)}
    if methods:
        with pytest.raises(qs.Error):
            qs.evaluate(Plain, texts, texts, matches=right, methods=methods)
        return
    done = qs.evaluate(Plain, texts, texts, matches=right)
    assert [row.method for row in done.rows] == ["frozen", "frozen+hubs"]


def test_advice_without_labels_takes_nothing_from_before():
    vectors = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    done = qs.evaluate(None, list(vectors), list(vectors))
    assert done.advice is not None and done.use == done.advice.use
    assert (done.kept, done.rows, done.cells) == (0, (), ())


def test_the_page_has_the_table_the_curve_and_the_worst_queries(log, tmp_path):
    out = tmp_path / "page.html"
    command = arguments(log, tmp_path / "r.jsonl", "-m", "shot", "--out", str(out))
    command += ["-m", "rest:lr=0.000123456789,temperature=0.0123456789", "--shift", "ocr:5"]
    ran = CliRunner().invoke(main, command)
    assert ran.exit_code == 0, ran.output
    wide = CliRunner().invoke(main, command, env={"COLUMNS": "160"})
    assert "rest:lr=0.000123456789,temperature=0.0123456789" in wide.stdout
    rows = [line.split() for line in ran.stdout.splitlines() if line.startswith(" ")]
    assert "rest:lr=0.000123456789,temperature=0.0123456789" in "".join(
        row[0] for row in rows if row
    )
    page = out.read_text()
    assert "recall@1 gain" in page and "<polyline" in page and "answers worst" in page
    assert "ocr" in page and "order of their time stamps" in page
    assert "http" not in page.replace("http-equiv", "")  # it needs nothing else
    assert "prefers-color-scheme: dark" in page
    for colour in COLOURS["frozen"]:  # as on every page, light and dark
        assert f"--method-0: {colour};" in page


def test_vectors_need_no_model_and_several_answers_are_counted(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    np.save(tmp_path / "gallery.npy", vectors)
    np.save(tmp_path / "queries.npy", vectors[:10] + 0.01)
    done = qs.evaluate(
        None,
        tmp_path / "gallery.npy",
        tmp_path / "queries.npy",
        matches={row: [row, row + 10] for row in range(10)},
        methods=["frozen", "tcr_untrained"],
    )
    assert done.rows[0].measures["recall@1"] == 100.0
    ranks = done.cells[0].ranks
    gains = 1 / np.log2(ranks + 1.0) * (ranks <= 10)
    expected = 100 * (gains.sum(axis=1) / (1 + 1 / np.log2(3))).mean()
    assert done.rows[0].measures["ndcg@10"] == pytest.approx(expected, abs=1e-3)
    assert "queries over 20 candidates" in html(done)


def test_a_difference_is_that_of_the_same_queries(log):
    asked = traffic("tangram", log / "products.jsonl", log / "log.jsonl", columns={"id": "sku"})
    first, second = (
        replay(asked, session_of(asked, spec), spec) for spec in ("frozen", "tent:lr=0")
    )
    assert first.ranks.equal(second.ranks) and (first.forwards, second.forwards) == (1.0, 3.0)


def test_a_column_that_no_table_has_is_refused_with_those_there_are(log):
    with pytest.raises(UnknownName, match='no column "skuu"; did you mean "sku"'):
        traffic("tangram", log / "products.jsonl", log / "log.jsonl", columns={"id": "skuu"})


def test_ids_that_do_not_belong_together_are_refused():
    asked, right = {1: "a red square"}, {1: ["nothing"]}
    with pytest.raises(BadInput, match="no query has a right answer in the gallery"):
        qs.evaluate("tangram", {"a": "an arrow"}, asked, matches=right)
    with pytest.raises(BadInput, match="matches and clicks"):
        qs.evaluate("tangram", {"a": "an arrow"}, asked, matches=right, clicks=right)


def test_a_faiss_index_is_a_gallery(tmp_path):
    faiss = pytest.importorskip("faiss")
    vectors = np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = faiss.IndexFlatIP(8)
    index.add(vectors)
    faiss.write_index(index, str(tmp_path / "docs.faiss"))
    (tmp_path / "docs.faiss.ids.json").write_text(json.dumps([f"d{row}" for row in range(20)]))
    right = {row: [f"d{row}"] for row in range(20)}
    done = qs.evaluate(None, tmp_path / "docs.faiss", list(vectors + 0.01), matches=right)
    assert "searched in memory" in done.notes[0] and done.bad == []
    assert done.rows[0].measures["recall@1"] == 100.0
