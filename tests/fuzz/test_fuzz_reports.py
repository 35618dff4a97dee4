"""Result lines and reports: any line is read or named, any label stays text in every format."""

import json

import numpy as np
from fuzzing import attempt, fuzzed, refused
from hostile_values import JSON, TEXTS, mostly
from hypothesis import strategies as st

from queryshift.errors import BadFile
from queryshift.lab.evaluation.report import FORMATS, Options, render, report, report_folder
from queryshift.lab.evaluation.results import Cell, decode, encode

LABELS = TEXTS | st.sampled_from(
    ("[bold]", "[/]", "\\input{x}", "=HYPERLINK(1)", "<script>", "|", "**", "\x1b[2J", "a\nb")
)


def cell(**given) -> Cell:
    plain = {
        "benchmark": "tangram-o-image",
        "shift": "fog",
        "severity": 5,
        "protocol": "online",
        "method": "rest",
        "seed": 0,
        "ranks": np.array([1, 2, 9, 1]),
        "candidates": 9,
        "finished": "2026-01-01",
    }
    return Cell(**{**plain, **given})


STORED = json.loads(encode(cell(categories={"a": 1, "b": 3}, subset_ranks=np.array([1, 2, 1, 1]))))


@fuzzed(share=2, key=st.sampled_from(sorted(STORED)), value=JSON, drop=st.booleans())
def test_any_line(key, value, drop, tmp_path_factory):
    stored = {name: part for name, part in STORED.items() if not drop or name != key}
    line = json.dumps(stored if drop else {**stored, key: value})
    found = attempt(decode, line)
    assert isinstance(found, BadFile | Cell)
    if not refused(found):
        path = tmp_path_factory.getbasetemp() / "any.jsonl"
        path.write_text(line + "\n")
        made = attempt(report_folder, path, Options(resamples=3))
        for form in () if refused(made) else FORMATS:
            assert isinstance(attempt(render, made, form), str)


@fuzzed(text=TEXTS | st.text("[]{}:,0", max_size=60) | st.integers(1, 9).map(lambda n: "[" * 9**n))
def test_any_text(text):
    assert isinstance(attempt(decode, text), BadFile)


@fuzzed(
    labels=st.fixed_dictionaries(
        {}, optional={name: LABELS for name in ("benchmark", "shift", "label", "model", "device")}
    ),
    other=LABELS,
    metric=mostly(st.sampled_from((None, "recall@5", "map", "mean_rank")), TEXTS),
)
def test_any_label(labels, other, metric):
    made = attempt(
        report, [cell(**labels), cell(method=other)], Options(metric=metric, resamples=3)
    )
    for form in () if refused(made) else FORMATS:
        written = render(made, form)
        assert "\x1b[2J" not in written
        assert "<script>" not in written or form not in ("html", "markdown")
        if form == "latex":
            lines = [line for line in written.splitlines() if not line.startswith("%")]
            assert "\\input{" not in "".join(lines)
