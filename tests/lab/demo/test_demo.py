"""The demo: its plan, its streams, its page, its command."""

import errno
import json
import re
import sys
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from click.testing import CliRunner
from PIL import Image

from queryshift import Gallery, Session, load
from queryshift.cli import main
from queryshift.errors import BadInput, UnknownName
from queryshift.lab.datasets.tangram import TASKS, tangram
from queryshift.lab.demo import run_demo
from queryshift.lab.demo.demo_page import examples, html, measures_along, right_along
from queryshift.lab.demo.demo_plan import SHOWN, DemoPlan, shifts
from queryshift.lab.demo.run_demo import demonstrate
from queryshift.lab.evaluation.pages import check_writable, write_page
from queryshift.lab.evaluation.pages.method_legend import COLOURS, colours_of
from queryshift.lab.evaluation.pages.page_items import parts
from queryshift.lab.evaluation.pages.svg_curves import HEIGHT, LEFT, RIGHT, WIDTH, Chart

VOID = {"meta", "img", "line", "polyline", "circle", "br"}


def small(task, count):
    """Few candidates, so that they are encoded at once."""
    whole = tangram(task, count=count)
    kept = 1 + max(position for right in whole.matches for position in right)
    return replace(whole, candidates=whole.candidates[:kept])


@pytest.fixture(scope="module")
def demo():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_demo, "tangram", small)
        yield demonstrate(DemoPlan(queries=80))


class TestPlan:
    def test_an_unknown_shift_is_answered_with_the_nearest(self):
        with pytest.raises(UnknownName, match='did you mean "gaussian_noise"'):
            DemoPlan(shift="gausian_noise")

    def test_a_shift_of_another_task_is_unknown(self):
        with pytest.raises(UnknownName, match="shift of audio queries"):
            DemoPlan(task="audio", shift="fog")

    def test_an_unknown_task(self):
        with pytest.raises(UnknownName, match='did you mean "video"'):
            DemoPlan(task="vidio")

    @pytest.mark.parametrize("wrong", [{"severity": 6}, {"queries": 1}])
    def test_other_wrong_values(self, wrong):
        with pytest.raises(BadInput):
            DemoPlan(**wrong)

    @pytest.mark.parametrize("task", TASKS)
    def test_every_shift_of_a_task_can_be_made(self, task):
        assert len(shifts(task)) == {"image": 17, "text": 15, "video": 17, "audio": 8}.get(task, 13)
        for shift in shifts(task):
            assert callable(DemoPlan(task=task, shift=shift).corruption())

    def test_a_quick_one_asks_less_of_fewer(self):
        plan = DemoPlan(quick=True)
        assert (plan.queries, plan.methods) == (256, ("frozen", "rest", "default"))
        assert DemoPlan(queries=8, quick=True).queries == 8
        assert "Asking frozen, rest and default 256 images" in plan.in_words
        assert "takes about 15 seconds" in plan.in_words
        assert "quick" in plan.options and "quick" not in DemoPlan().options

    @pytest.mark.parametrize("task", ["image", "text"])
    def test_a_quick_ones_gallery_has_every_match(self, task):
        demo = demonstrate(DemoPlan(task=task, queries=16, quick=True))
        size = len(demo.dataset.candidates)
        assert size == (2000 if task == "image" else 400)
        assert all(place < size for own in demo.dataset.matches for place in own)
        assert [row.method for row in demo.rows] == [*demo.plan.methods] * 2

    def test_named_methods_stand_beside_the_frozen_model(self):
        assert DemoPlan(method=("tent:lr=0.0010", "frozen")).methods == ("frozen", "tent:lr=0.001")
        assert DemoPlan(method=("rest",)).options["method"] == "rest"
        with pytest.raises(UnknownName, match='did you mean "rest"'):
            DemoPlan(method=("rset",))

    def test_more_queries_take_longer_and_it_says_so(self):
        few, many = (DemoPlan(queries=queries) for queries in (64, 8192))
        assert few.time_in_words == "about a minute"
        assert int(many.time_in_words.split()[1]) > 4
        assert DemoPlan(task="video").time_in_words != few.time_in_words

    def test_the_default_is_the_first_of_the_list(self):
        assert [DemoPlan(task=task).named for task in TASKS] == [
            *("gaussian_noise", "ocr", "gaussian_noise", "gaussian_noise", "noise+character")
        ]


class TestStreams:
    def test_both_streams_went_through_all_methods(self, demo):
        assert [(row.stream, row.queries, row.method) for row in demo.rows] == [
            (stream, queries, method)
            for stream, queries in (("shifted", 80), ("clean", 40))
            for method in ("frozen", "tent", "shot", "tcr", "rest", "default")
        ]

    def test_before_is_what_the_frozen_model_finds(self, demo):
        for row in demo.rows:
            frozen = (demo.shifted if row.stream == "shifted" else demo.clean)[0]
            assert row.right_before == frozen.right
            assert row.ms_per_query > 0
        assert demo.rows[0].right_after == demo.rows[0].right_before

    def test_every_method_goes_its_own_way(self, demo):
        spreads = {one.result.history[-1].spread for one in demo.shifted}
        assert len(spreads) == len(demo.shifted)

    def test_the_default_leaves_clean_queries_to_the_source(self, demo):
        frozen, *methods, default = [one.result.history[-1].spread for one in demo.clean]
        assert default == frozen and frozen not in methods

    def test_the_default_is_a_session_of_encoder_and_gallery_alone(self, demo):
        encoder = load("tangram")["image"]
        session = Session(encoder, Gallery.build(load("tangram")["text"], demo.dataset.candidates))
        order, found = demo.shifted[-1].result.order, demo.shifted[-1].result.top
        first = session.answer([demo.queries[row] for row in order[:64]]).top(10).positions
        same = first == found[order[:64]]
        assert same[:, 0].all() and same.float().mean() > 0.98  # near ties may change places

    def test_the_cost_of_a_query_is_its_part_of_the_streams_seconds(self, demo):
        for row, stream in zip(demo.rows, (*demo.shifted, *demo.clean), strict=True):
            assert row.ms_per_query * row.queries == pytest.approx(1000 * stream.result.seconds)

    def test_clean_queries_are_found_and_shifted_ones_lost(self, demo):
        shifted, clean = demo.rows[0], demo.rows[6]
        assert clean.right_before > 95 > 60 > shifted.right_before

    def test_the_first_answers_kept_are_those_that_were_ranked(self, demo):
        for stream in (*demo.shifted, *demo.clean):
            for row, first in enumerate(stream.result.top[:, 0].tolist()):
                assert (first in demo.dataset.matches[row]) == (stream.result.ranks[row] == 1)

    def test_the_same_plan_gives_the_same_answers_and_another_seed_others(self, demo):
        one, other = (demonstrate(DemoPlan(queries=8, seed=3)) for _ in range(2))
        for left, right in zip(one.shifted, other.shifted, strict=True):
            assert left.result.top.equal(right.result.top)
            assert left.result.history == right.result.history
            assert not left.result.top.equal(demo.shifted[0].result.top[:8])

    @pytest.mark.parametrize(("task", "batch"), [("composed", 32), ("image", 64)])
    def test_batches_are_those_of_the_benchmark(self, task, batch, monkeypatch):
        monkeypatch.setattr(run_demo, "tangram", small)
        monkeypatch.setattr(DemoPlan, "methods", ("frozen",))
        asked = demonstrate(DemoPlan(task=task, queries=70))
        sizes = [seen.queries for seen in asked.shifted[0].result.history]
        assert sizes == [batch] * (70 // batch) + [70 % batch]
        assert f"over the latest {min(4 * batch, 70)} queries" in html(asked)

    def test_queries_that_a_shift_leaves_as_they_are_are_counted(self, demo):
        assert demo.unchanged == 0
        queries = [*demo.queries[:70], *demo.dataset.queries[70:]]
        assert replace(demo, queries=queries).unchanged == 10

    def test_composed_queries_are_changed_if_one_half_is(self, demo):
        picture, other = demo.dataset.queries[:2]
        clean = [(picture, "make it red")] * 3
        asked = [(picture, "make it red"), (picture, "meka it red"), (other, "make it red")]
        data = replace(demo.dataset, queries=clean, query_ids=[*"abc"], matches=[(0,)] * 3)
        assert replace(demo, dataset=data, queries=asked).unchanged == 1

    def test_what_was_asked_in_words(self, demo):
        assert demo.question == "Which of 400 captions belongs to the image?"
        assert demo.described(demo.rows[0]) == "80 images, gaussian noise (severity 3/5)"
        assert demo.described(demo.rows[6]) == "40 images, clean"
        assert DemoPlan(shift="diverse").shift_in_words == "a different shift each (severity 3/5)"


class Balance(HTMLParser):
    """Which tags are open, and everything the page would fetch."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched = [], []

    def handle_starttag(self, tag, attributes):
        self.fetched += [value for name, value in attributes if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop() == tag


@pytest.fixture(scope="module")
def shown(demo):
    return html(demo)


class TestPage:
    def test_it_is_whole_and_fetches_nothing(self, shown):
        seen = Balance()
        seen.feed(shown)
        assert seen.open == []
        assert seen.fetched and all(one.startswith("data:") for one in seen.fetched)
        assert "@import" not in shown and "url(" not in shown

    def test_right_answers_are_marked(self, demo, shown):
        answers = [answer for example in examples(demo) for answer in example.answers]
        right = sum(answer.rank == 1 for answer in answers)
        assert shown.count('class="answer right"') == right
        assert shown.count('class="answer wrong"') == len(answers) - right

    def test_where_all_are_wrong_the_right_answer_is_shown(self, demo):
        demo = replace(demo, shifted=demo.shifted[:2])
        shown = html(demo)
        missed = [one for one in examples(demo) if all(answer.rank > 1 for answer in one.answers)]
        assert missed and shown.count("answer missed") == len(missed)
        assert all(example.right for example in missed)
        found = [one for one in examples(demo) if one not in missed]
        assert not any(example.right for example in found)

    def test_a_stream_of_one_batch_is_drawn(self, demo):
        chart = Chart({"rest": [40.0]}, [64], bounds=(0.0, 100.0))
        assert chart.last["rest"] == (chart.across(64), chart.up(40.0))
        assert html(demo).count("<circle") == html(demo).count("<polyline")

    def test_dark_pages_and_figures_have_the_same_colours(self, shown):
        assert "prefers-color-scheme: dark" in shown
        for method in SHOWN:
            name = f"--method-{SHOWN.index(method)}"
            assert f"{name}: {COLOURS[method].light};" in shown
            assert f"{name}: {COLOURS[method].dark};" in shown
        assert colours_of(["source model", "Tent", "TCR", "REST"]) == [
            COLOURS[method] for method in ("frozen", "tent", "tcr", "rest")
        ]

    def test_the_command_breaks_between_options_only(self, shown):
        assert "<span>--shift gaussian_noise</span> <span>--severity 3</span>" in shown

    def test_examples_come_from_the_last_quarter(self, demo):
        late = demo.shifted[0].result.order[60:].tolist()
        asked = {part.content for example in examples(demo) for part in example.asked}
        assert asked <= {parts("image", demo.queries[row])[0].content for row in late}
        assert len(asked) == 6

    def test_the_curve_ends_with_the_whole_stream(self, demo):
        chart = right_along(demo.shifted)
        assert chart.asked == [64, 80]
        for stream in demo.shifted:  # two batches: the window still holds all
            assert chart.lines[stream.method][-1] == pytest.approx(stream.right)

    def test_the_curve_is_of_the_latest_four_batches(self, demo):
        first = demo.shifted[0]
        ranks = torch.tensor([1] * 10 + [2] * 50)[:, None]
        history = [replace(first.result.history[0], queries=10) for _ in range(6)]
        result = replace(first.result, all_ranks=ranks, order=torch.arange(60), history=history)
        chart = right_along((replace(first, result=result),))
        assert chart.lines["frozen"] == pytest.approx([100, 50, 100 / 3, 25, 0, 0])

    def test_measures_of_all_methods_and_of_clean_queries(self, demo):
        found = dict(measures_along(demo))
        assert len(found) == 5
        for chart in found.values():
            assert list(chart.lines) == ["frozen", "tent", "shot", "tcr", "rest", "default"]
        clean = [seen.gap for seen in demo.clean[0].result.history]
        gap = found["gap"]
        assert gap.clean == pytest.approx(sum(clean) / len(clean))

    def test_words_of_queries_cannot_become_markup(self, demo):
        texts = ["<script>x</script>"] * len(demo.dataset.candidates)
        text = html(replace(demo, dataset=replace(demo.dataset, candidates=texts)))
        assert "<script" not in text and "&lt;script&gt;" in text

    def test_folders_are_made(self, demo, tmp_path):
        written = write_page(html(demo), tmp_path / "a" / "b.html")
        assert written.read_text(encoding="utf-8") == html(demo)


class TestCharts:
    chart = Chart({"a": [0, 100], "b": [0, 98]}, [64, 128], bounds=(0, 100))

    def test_points_span_the_frame(self):
        right = WIDTH - RIGHT
        assert self.chart.points["a"] == f"{(LEFT + right) / 2:.1f},{self.chart.up(0):.1f} " + (
            f"{right:.1f},{self.chart.up(100):.1f}"
        )
        assert 0 < self.chart.up(100) < self.chart.up(0) < HEIGHT

    def test_names_of_lines_do_not_overlap(self):
        assert self.chart.ends["b"] - self.chart.ends["a"] >= 14

    def test_names_of_low_lines_stay_above_the_axis(self):
        low = Chart({"a": [0], "b": [0], "c": [0]}, [64], bounds=(0, 100))
        places = sorted(low.ends.values())
        assert places[-1] <= low.up(0) + 4
        assert [lower - upper for upper, lower in pairwise(places)] == [20, 20]

    def test_names_stay_as_near_to_their_lines_as_the_others_allow(self):
        chart = Chart({"a": [52], "b": [51], "c": [50], "d": [10]}, [64], bounds=(0, 100))
        far = {
            name: chart.ends[name] - chart.up(line[-1]) - 4 for name, line in chart.lines.items()
        }
        assert far["d"] == 0 and abs(far["b"]) < 1 and abs(far["a"] + far["c"]) < 1

    def test_ticks(self):
        assert [tick.label for tick in self.chart.rows] == ["0", "25", "50", "75", "100"]
        assert [tick.label for tick in self.chart.columns] == ["0", "32", "64", "96", "128"]

    def test_room_for_the_clean_level_and_for_flat_lines(self):
        low, high = Chart({"a": [1, 2]}, [1, 2], clean=5).range
        assert low < 1 and high > 5
        low, high = Chart({"a": [1, 1]}, [1, 2]).range
        assert low < 1 < high


class TestMedia:
    def decoded(self, part):
        return BytesIO(b64decode(part.content.split(",")[1]))

    def test_pictures_come_back(self):
        pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8)
        image, text = parts("image+text", (pixels, "make it red"))
        assert np.array_equal(np.asarray(Image.open(self.decoded(image))), pixels)
        assert text == ("text", "make it red")

    def test_a_clip_is_a_strip_of_its_frames_with_room_between_them(self):
        (strip,) = parts("video", np.zeros((10, 8, 8, 3), np.uint8))
        row = np.asarray(Image.open(self.decoded(strip)))[4, :, 0]
        assert row.tolist() == ([0] * 8 + [255] * 2) * 9 + [0] * 8

    def test_sounds_come_back(self):
        wave = np.linspace(-0.9, 0.9, 1600).astype(np.float32)
        (sound,) = parts("audio", wave)
        heard, rate = soundfile.read(self.decoded(sound))
        assert rate == 16_000
        assert np.abs(heard - wave).max() < 1e-4


def no_space(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


class TestCommand:
    def run(self, *options):
        ran = CliRunner().invoke(main, ["demo", *options])
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    def test_table_and_json_have_the_same_numbers(self, demo, tmp_path, monkeypatch):
        monkeypatch.setattr("queryshift.lab.demo.run_demo.demonstrate", lambda plan: demo)
        out = str(tmp_path / "page.html")
        table, numbers = self.run("--out", out), json.loads(self.run("--out", out, "--json"))
        assert numbers["page"] == out and "Which of 400 captions" in table
        assert numbers["shift"] == "gaussian_noise" and numbers["candidates"] == 400
        assert numbers["unchanged"] == 0 and "unchanged" not in table
        shown = re.findall(r"│   (\w+) +│ +([\d.]+) % │ +(?:([\d.]+) %)? +│ +([\d.]+) ms", table)
        assert shown == [
            (
                row["method"],
                f"{row['right_before']:.1f}",
                "" if row["method"] == "frozen" else f"{row['right_after']:.1f}",
                f"{row['ms_per_query']:.1f}",
            )
            for row in numbers["rows"]
        ]

    def test_a_shift_that_changes_nothing_is_no_secret(self, demo, tmp_path, monkeypatch):
        idle = replace(demo, queries=demo.dataset.queries)
        monkeypatch.setattr("queryshift.lab.demo.run_demo.demonstrate", lambda plan: idle)
        out = tmp_path / "page.html"
        said = "The shift left 80 of the "
        assert said in self.run("--out", str(out)) and said in out.read_text(encoding="utf-8")
        assert json.loads(self.run("--out", str(out), "--json"))["unchanged"] == 80

    def test_the_options_reach_the_plan(self, demo, tmp_path, monkeypatch):
        plans = []
        monkeypatch.setattr(
            "queryshift.lab.demo.run_demo.demonstrate", lambda plan: plans.append(plan) or demo
        )
        options = ("--task=audio", "--shift=rain", "--severity=5", "--seed=7", "--queries=99")
        self.run(*options, "--method=tent", "--out", str(tmp_path / "page.html"))
        assert plans == [DemoPlan("audio", "rain", 5, 7, 99, method=("tent",))]

    @pytest.mark.parametrize("options", [(), ("--json",)])
    def test_what_will_take_a_while_is_said_before_it_does(self, options, tmp_path, monkeypatch):
        monkeypatch.setattr("queryshift.lab.demo.run_demo.demonstrate", lambda plan: sys.exit(3))
        out = str(tmp_path / "page.html")
        ran = CliRunner().invoke(main, ["demo", "--out", out, *options])
        assert ran.exit_code == 3 and ran.stdout == ""
        assert ran.stderr.startswith(
            "Asking frozen, tent, shot, tcr, rest and default 1,024 images under gaussian noise "
            "(severity 3/5), then 512 clean ones."
        )

    def test_a_wrong_name_is_one_sentence(self):
        ran = CliRunner().invoke(main, ["demo", "--shift", "fogg"])
        assert ran.exit_code == 2
        assert 'did you mean "fog"' in ran.output and "Traceback" not in ran.output

    @pytest.mark.parametrize("task", TASKS)
    def test_every_name_of_a_shift_is_shown_as_help_says(self, task):
        assert '"list": all names' in " ".join(self.run("--help").split())
        assert self.run("--task", task, "--shift", "list").split("\n") == [*shifts(task), ""]

    def test_a_narrow_terminal_shows_every_name_and_what_it_found(
        self, demo, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("queryshift.lab.demo.run_demo.demonstrate", lambda plan: demo)
        monkeypatch.setenv("COLUMNS", "40")
        table = self.run("--out", str(tmp_path / "page.html"))
        for row in demo.rows:
            assert re.search(rf"│   {row.method} +│ +{row.right_before:.1f} % │", table), table

    @pytest.mark.parametrize("out", ["", "taken/page.html", "made/../taken/deep/page.html"])
    def test_where_no_page_can_be_written_nothing_is_computed(self, out, tmp_path, monkeypatch):
        monkeypatch.setattr(
            "queryshift.lab.demo.run_demo.demonstrate", lambda plan: pytest.fail("computed")
        )
        monkeypatch.chdir(tmp_path)
        (tmp_path / "taken").write_text("a file, no folder")
        ran = CliRunner().invoke(main, ["demo", "--out", out])
        assert ran.exit_code == 2 and isinstance(ran.exception, SystemExit)
        assert ran.output.startswith("Error: no page can be written to") and "--out" in ran.output

    @pytest.mark.parametrize("options", [(), ("--json",)])
    def test_a_full_disk_does_not_cost_the_numbers(self, options, demo, tmp_path, monkeypatch):
        monkeypatch.setattr("queryshift.lab.demo.run_demo.demonstrate", lambda plan: demo)
        monkeypatch.setattr(Path, "write_text", no_space)
        ran = CliRunner().invoke(main, ["demo", "--out", str(tmp_path / "page.html"), *options])
        assert ran.exit_code == 1 and all(row.method in ran.stdout for row in demo.rows)
        assert "No space left on device" in ran.stderr and "Traceback" not in ran.stderr

    def test_asking_for_a_place_leaves_nothing_behind(self, tmp_path):
        there = tmp_path / "page.html"
        check_writable(there)
        assert list(tmp_path.iterdir()) == []
        there.write_text("an earlier page")
        check_writable(there)
        assert there.read_text() == "an earlier page"
