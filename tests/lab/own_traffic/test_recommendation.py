"""With labels, an evaluation ends in one sentence: what to use, by how much, how certain."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import queryshift as qs
from queryshift.cli import main
from queryshift.lab.evaluation.results import Cell
from queryshift.lab.own_traffic.evaluate import _rows
from queryshift.lab.own_traffic.evaluation_page import html
from queryshift.lab.own_traffic.recommendation import queries_needed, recommended, rounded

COUNT = 400


def cell(method, right):
    """A method that has these queries right."""
    ranks = np.where(right, 1, 7)[:, None]
    return Cell(
        benchmark="own data",
        shift="",
        severity=0,
        protocol="online",
        method=method,
        seed=0,
        ranks=ranks,
        candidates=100,
        seconds=1.0,
        settings={"asked": COUNT, "forwards": 1.0},
    )


def told(count=COUNT, clicks=False, **shares):
    """The recommendation where each method has the first so many right; "_" stands for "+"."""
    place = np.arange(count)
    cells = [cell(name.replace("_", "+"), place < share * count) for name, share in shares.items()]
    return recommended(_rows(cells), cells, clicks=clicks)


def test_the_default_is_used_where_it_is_better_beyond_chance():
    use, sentence = told(frozen=0.3, frozen_hubs=0.4, default=0.4, rest=0.35)
    assert use == "default"
    assert sentence.startswith("Use the default session, qs.Session(encoder, gallery): its top-1")
    assert (
        "40.0 %" in sentence and "30.0 %" in sentence and "+10.0 points (95 % interval" in sentence
    )


def test_without_the_default_the_best_that_is_better_is_used():
    assert told(frozen=0.3, default=0.3, tent=0.495, rest=0.5)[0] == "rest"
    assert told(frozen=0.3, tent=0.5, rest=0.495)[0] == "tent"


def test_where_none_is_better_the_sentence_is_about_the_best_of_them():
    sentence = told(frozen=0.3, default=0.1, tent=0.25, rest=0.2)[1]
    assert "The best of the others, tent, has -5.0 points" in sentence


@pytest.mark.parametrize(("low", "use"), [(-0.1, "frozen"), (0.0, "frozen"), (0.1, "default")])
def test_a_gain_is_beyond_chance_where_its_interval_lies_above_zero(low, use):
    cells = [cell("frozen", np.arange(COUNT) < 120), cell("default", np.arange(COUNT) < 130)]
    rows = _rows(cells)
    found, sentence = recommended([rows[0], replace(rows[1], low=low)], cells)
    assert found == use
    assert ("its top-1 result is right for" in sentence) is (use == "default")


def test_the_interval_is_one_of_95_percent():
    """1.96 standard errors of a paired difference to each side, as a mean over 40 methods."""
    rng = np.random.default_rng(0)
    right = rng.random((41, COUNT)) < 0.5
    rows = _rows([cell(f"m{number}", some) for number, some in enumerate(right)])
    widths = []
    for row, some in zip(rows[1:], right[1:], strict=True):
        error = 100 * (some.astype(float) - right[0]).std() / COUNT**0.5
        assert row.difference == pytest.approx(100 * (some.mean() - right[0].mean()))
        widths.append(((row.high - row.difference) / error, (row.difference - row.low) / error))
    assert np.mean(widths, axis=0) == pytest.approx([1.96, 1.96], abs=0.06)
    assert np.mean(widths) == pytest.approx(1.96, abs=0.03)


@pytest.mark.parametrize(
    ("count", "read"),
    [(1, 1), (7, 7), (99, 99), (100, 100), (101, 110), (720, 720), (8012, 8100), (12_345, 13_000)],
)
def test_counts_are_told_with_two_digits_and_never_too_few(count, read):
    assert rounded(count) == read


def test_another_is_used_where_it_beats_the_default_beyond_chance():
    assert told(frozen=0.3, default=0.4, rest=0.41)[0] == "default"
    use, sentence = told(frozen=0.3, default=0.4, rest=0.5)
    assert use == "rest" and 'Use the method "rest"' in sentence


def test_the_model_stays_as_it_is_where_nothing_is_better():
    use, sentence = told(frozen=0.3, default=0.2)
    assert use == "frozen" and "Keep the model as it is" in sentence and "-10.0 points" in sentence


def test_a_gain_that_may_be_chance_says_how_many_labels_settle_it():
    right = np.arange(COUNT) < 120
    other = right.copy()
    other[110:120], other[300:313] = False, True  # 10 lost, 13 won
    cells = [cell("frozen", right), cell("default", other)]
    use, sentence = recommended(_rows(cells), cells)
    assert use == "frozen" and "may be chance" in sentence
    needed = rounded(queries_needed(23 / COUNT, 3 / COUNT))
    assert f"about {needed:,} labelled queries would settle it" in sentence


def test_one_method_alone_is_compared_with_nothing():
    use, sentence = told(frozen=0.3)
    assert use == "frozen" and "name a method to compare it with" in sentence


@pytest.mark.parametrize("count", [1, 8, 29])
def test_a_few_labelled_queries_give_no_verdict(count):
    use, sentence = told(count, frozen=0.0, default=1.0)
    assert use == "frozen" and sentence.startswith(f"Cannot tell: {count} quer")
    assert "too few, at least 30 are needed" in sentence
    assert told(30, frozen=0.0, default=1.0)[0] == "default"


def test_clicks_are_not_called_right_answers():
    _, sentence = told(frozen=0.3, default=0.4, clicks=True)
    assert "its top-1 result is a clicked one for 40.0 %" in sentence and "right" not in sentence
    assert "1 query with a click is too few" in told(1, frozen=0, default=1, clicks=True)[1]


def test_vectors_with_labels_compare_frozen_and_default_and_end_in_the_sentence(tmp_path):
    rng = np.random.default_rng(0)
    gallery = rng.normal(size=(200, 16)).astype(np.float32)
    np.save(tmp_path / "gallery.npy", gallery)
    np.save(tmp_path / "queries.npy", gallery[:150] + 0.5)
    (tmp_path / "clicks.csv").write_text(
        "query_id,clicked\n" + "".join(f"{row},{row}\n" for row in range(150))
    )
    files = [f"--{name}={tmp_path / name}.npy" for name in ("gallery", "queries")]
    files += [f"--clicks={tmp_path / 'clicks.csv'}", f"--results={tmp_path / 'r.jsonl'}"]
    ran = CliRunner().invoke(main, ["evaluate", *files], env={"COLUMNS": "160"})
    assert ran.exit_code == 0, ran.output
    assert ran.output.strip().splitlines()[-1].startswith(("Use the default", "Keep the model"))
    assert "150 with a click" in ran.output and "right answer" not in ran.output
    done = qs.evaluate(
        None,
        tmp_path / "gallery.npy",
        tmp_path / "queries.npy",
        clicks=tmp_path / "clicks.csv",
    )
    assert [row.method for row in done.rows] == ["frozen", "default"]
    page = html(done).replace("&#39;", "'")
    assert done.verdict in page and "have a known click" in page and "right answer" not in page


def test_the_default_rows_are_what_people_would_deploy():
    texts = {row: f"a {colour} square" for row, colour in enumerate(["red", "blue", "green"])}
    done = qs.evaluate("tangram", texts, texts, matches={row: [row] for row in texts})
    assert [row.method for row in done.rows] == ["frozen", "frozen+hubs", "default", "rest"]
    assert done.rows[2].method == "default" and done.cells[2].settings["method"]


@pytest.mark.parametrize("spec", ["default:lr=0.1", "default+hubs", "default+decoupled"])
def test_the_default_takes_no_settings(spec):
    with pytest.raises(qs.errors.BadInput, match="write default alone"):
        qs.evaluate("tangram", ["a"], ["a"], methods=[spec])
