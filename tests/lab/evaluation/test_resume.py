"""Runs on a small COCO: resumed, refused, interrupted, killed, in processes and on a cluster."""

import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

import coco_of_scenes
from forked_commands import Command, start
from queryshift import Gallery, Session
from queryshift.errors import BadFile, BadInput, MissingExtra, UnknownName
from queryshift.lab.evaluation.benchmark_methods import method_of
from queryshift.lab.evaluation.benchmarks import BENCHMARKS
from queryshift.lab.evaluation.corrupted_queries import corruption_of
from queryshift.lab.evaluation.results import read_lines
from queryshift.lab.evaluation.runner.cell_executors import in_processes
from queryshift.lab.evaluation.runner.context import RunContext
from queryshift.lab.evaluation.runner.gallery_cache import content_hash, embedded
from queryshift.lab.evaluation.runner.plans import Choices, Plan, Task, plans_for
from queryshift.lab.evaluation.runner.prepared_benchmark import prepare
from queryshift.lab.evaluation.runner.resume import locked, run_all
from queryshift.lab.evaluation.runner.run_cell import run_cell
from queryshift.lab.evaluation.stream_evaluation import run, shifted
from queryshift.media.lazy_items import Composed, ImageFile, LazyItems
from small_datasets import small

SCENES = 10
NAME = "coco-o-image.jsonl"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return coco_of_scenes.write(tmp_path_factory.mktemp("coco"), SCENES)


@pytest.fixture(scope="module")
def choices(root):
    return Choices(model="tangram", root=root, preprocessing="library")


@pytest.fixture(scope="module")
def plan(choices):
    return Plan(
        row=BENCHMARKS["coco-o-image"],
        methods=("frozen", "rest"),
        seeds=(0, 1),
        shifts=("gaussian_noise",),
        choices=choices,
    )


@pytest.fixture(scope="module")
def finished(plan, tmp_path_factory):
    """A folder with all cells of the plan; tests copy what they change."""
    out = tmp_path_factory.mktemp("finished")
    return out, run_all([plan], out)


@pytest.fixture
def copied(finished, tmp_path):
    for path in finished[0].rglob("*"):
        if path.is_file():
            target = tmp_path / path.relative_to(finished[0])
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    return tmp_path


def same_ranks(left, right) -> bool:
    return all(np.array_equal(a.ranks, b.ranks) for a, b in zip(left, right, strict=True))


def never(context, prepared, tasks, watch):
    raise AssertionError(f"{tasks} should not be run")


def test_a_cell_is_what_a_plain_loop_gives(plan, finished, root):
    context = RunContext()
    prepared = prepare(plan.row, plan.choices, finished[0] / "galleries", context)
    dataset, gallery = prepared.parts[0].dataset, prepared.parts[0].gallery
    queries = shifted(dataset, corruption_of(plan.row, "gaussian_noise"), 5, seed=1)
    method = method_of("rest", plan.row)
    session = Session(context.encoder(prepared), gallery, method, seed=1, guard=None)
    outcome = run(session, queries, dataset.matches, seed=1)
    cell = next(one for one in finished[1].cells if (one.method, one.seed) == ("rest", 1))
    assert np.array_equal(cell.ranks, outcome.all_ranks)
    assert cell.ranks.shape == (SCENES, 5)


def test_a_cell_tells_how_it_came_about(finished):
    cell = finished[1].cells[0]
    assert (cell.benchmark, cell.protocol, cell.severity) == ("coco-o-image", "online", 5)
    assert (cell.model, cell.candidates) == ("tangram", 5 * SCENES)
    assert cell.seconds > 0 and 50 < cell.peak_memory_mb < 20_000
    assert cell.device.startswith("cpu")
    assert {"python", "torch", "transformers", "pillow"} <= set(cell.versions)
    assert cell.settings["method"]["temperature"] == 0.01
    assert cell.finished.endswith("+00:00")


def test_what_is_finished_is_not_run_again(plan, finished, copied):
    again = run_all([plan], copied, never)
    assert (again.kept, len(again.cells)) == (4, 4)
    more = replace(plan, methods=("frozen", "tent"))
    assert run_all([more], copied).kept == 2
    *before, first, second = read_lines(copied / NAME).cells
    assert [(cell.method, cell.seed) for cell in (first, second)] == [("tent", 0), ("tent", 1)]
    assert same_ranks(before, finished[1].cells)


def test_a_half_written_last_line_is_run_again(plan, finished, copied):
    whole = (copied / NAME).read_bytes()
    (copied / NAME).write_bytes(whole[:-200])
    again = run_all([plan], copied)
    assert again.kept == 3
    assert same_ranks(again.cells, finished[1].cells)
    assert len(read_lines(copied / NAME).cells) == 4


def test_a_damaged_line_is_named_and_run_again(plan, copied):
    lines = (copied / NAME).read_text().splitlines(keepends=True)
    (copied / NAME).write_text("".join([lines[0], "{oops\n", *lines[2:]]))
    again = run_all([plan], copied)
    assert again.kept == 3
    assert "line 2" in again.notes[0]


def test_other_settings_are_refused_with_what_differs(plan, copied):
    fewer = replace(plan, choices=replace(plan.choices, queries=4))
    with pytest.raises(BadInput, match="queries was 10, is 4"):
        run_all([fewer], copied, never)
    hotter = replace(plan, row=replace(plan.row, temperature=0.5))
    with pytest.raises(BadInput, match=r"temperature was 0\.01, is 0\.5\. Ask as before"):
        run_all([hotter], copied, never)
    assert len(read_lines(copied / NAME).cells) == 4


def test_a_translator_may_come_later(plan, tmp_path):
    """A note asks for one; what was run without it, and needs none, is kept."""
    text = replace(plan, row=BENCHMARKS["coco-o-text"], shifts=("ocr",), methods=("frozen",))
    run_all([text], tmp_path)
    translated = replace(text, choices=replace(plan.choices, translator=("there", "back")))
    assert run_all([translated], tmp_path, never).kept == 2
    drawn = replace(text, row=BENCHMARKS["coco-d-text"], shifts=())
    run_all([drawn], tmp_path)
    with pytest.raises(BadInput, match=r"translator was \[\], is \['there', 'back'\]"):
        run_all([replace(drawn, choices=translated.choices)], tmp_path, never)


def test_other_captions_are_refused(plan, root, copied, tmp_path):
    other = tmp_path / "coco"
    other.mkdir()
    (other / "val2014").symlink_to(root / "val2014")
    told = (root / "dataset_coco.json").read_text().replace("red", "dark red")
    (other / "dataset_coco.json").write_text(told)
    elsewhere = replace(plan.choices, root=other)
    with pytest.raises(BadInput, match="content was"):
        run_all([replace(plan, choices=elsewhere)], copied, never)
    asked = replace(plan, row=BENCHMARKS["coco-o-text"], shifts=("ocr",), methods=("frozen",))
    run_all([asked], copied)
    with pytest.raises(BadInput, match="asked was"):
        run_all([replace(asked, choices=elsewhere)], copied, never)


def test_two_runs_do_not_share_a_folder(plan, tmp_path):
    with locked(tmp_path), pytest.raises(BadInput, match=rf"process {os.getpid()}\) is writing"):
        run_all([plan], tmp_path, never)
    with locked(tmp_path):
        pass


def test_an_ablation_is_a_cell_of_its_own(plan, copied):
    ablated = replace(plan, methods=("rest", "rest: gap=False", "rest:gap=false"), seeds=(0,))
    assert ablated.methods == ("rest", "rest:gap=false")
    ran = run_all([ablated], copied)
    assert (ran.kept, [cell.method for cell in ran.cells]) == (1, ["rest", "rest:gap=false"])
    assert not ran.cells[1].settings["method"]["gap"]
    assert run_all([ablated], copied, never).kept == 2


def test_an_interrupt_keeps_what_is_finished(plan, copied):
    def interrupted(context, prepared, tasks, watch):
        yield run_cell(context, prepared, tasks[0])
        raise KeyboardInterrupt

    more = replace(plan, seeds=(2, 3), methods=("frozen",))
    with pytest.raises(KeyboardInterrupt):
        run_all([more], copied, interrupted)
    assert len(read_lines(copied / NAME).cells) == 5
    with locked(copied):
        pass


@dataclass(frozen=True)
class Page:
    """An item that shares its file with others."""

    path: Path
    number: int

    @property
    def files(self):
        return (self.path,)

    def open(self):
        return f"page {self.number}"


class TestGalleries:
    def test_candidates_are_embedded_once(self, plan, finished, monkeypatch):
        monkeypatch.setattr(Gallery, "build", never)
        prepared = prepare(plan.row, plan.choices, finished[0] / "galleries", RunContext())
        assert len(prepared.parts[0].gallery) == 5 * SCENES

    def test_another_preprocessing_is_another_gallery(self, plan, copied):
        published = replace(plan.choices, preprocessing="published")
        prepare(plan.row, published, copied / "galleries", RunContext())
        assert len(list((copied / "galleries").glob("*/*.safetensors"))) == 2

    def test_a_damaged_file_is_made_again(self, plan, copied):
        (path,) = (copied / "galleries").glob("*/*.safetensors")
        whole, content = Gallery.load(path, mapped=False), path.read_bytes()
        path.write_bytes(content[:100])
        prepare(plan.row, plan.choices, copied / "galleries", RunContext())
        again = Gallery.load(path)
        assert torch.equal(again.vectors, whole.vectors) and again.ids == whole.ids

    def test_other_content_is_another_gallery(self, encoder, clean, tmp_path, monkeypatch):
        assert content_hash(["ab", "c"]) != content_hash(["a", "bc"])
        assert content_hash([np.zeros((2, 3))]) != content_hash([np.zeros((3, 2))])
        rows = LazyItems([Page(tmp_path / "book", 0), Page(tmp_path / "book", 1)])
        assert content_hash(rows) == content_hash(["page 0", "page 1"])  # not the book, twice
        picture = ImageFile(small.coco(tmp_path / "coco") / "val2014/COCO_val2014_000000000001.jpg")
        asked = [LazyItems([Composed(picture, text)] * 2) for text in ("longer", "shorter")]
        assert content_hash(asked[0]) != content_hash(asked[1])
        with monkeypatch.context() as patch:
            patch.setattr(ImageFile, "open", never)
            content_hash(asked[0])  # one picture of several queries is not decoded for each
        tmp_path = tmp_path / "kept"
        embedded(encoder, clean, tmp_path)
        embedded(encoder, clean[:-1], tmp_path)
        assert len(list(tmp_path.iterdir())) == 2


class TestUnreadable:
    @pytest.fixture
    def damaged(self, choices, tmp_path):
        root = coco_of_scenes.write(tmp_path / "coco", 4)
        (root / "val2014" / "COCO_val2014_000000000002.png").write_bytes(b"no picture")
        return replace(choices, root=root)

    def test_it_is_named_skipped_and_counted(self, plan, damaged, tmp_path):
        ran = run_all([replace(plan, choices=damaged, methods=("frozen",))], tmp_path)
        assert [cell.queries for cell in ran.cells] == [3, 3]
        (note,) = ran.notes
        assert note.startswith("1 left out, unreadable:\n  ") and "000000000002.png" in note
        assert "000000000002.png" in ran.cells[0].settings["skipped"][0]

    def test_or_it_is_an_error(self, plan, damaged, tmp_path):
        strict = replace(plan, choices=replace(damaged, strict=True))
        with pytest.raises(BadFile, match=r"000000000002\.png.* go on without it \(not strict\)"):
            run_all([strict], tmp_path, never)

    def test_of_many_a_note_names_ten(self, plan, choices, tmp_path):
        root = coco_of_scenes.write(tmp_path / "coco", 4)
        for number in (1, 2, 3):
            (root / "val2014" / f"COCO_val2014_{number:012}.png").unlink()
        text = replace(plan, row=BENCHMARKS["coco-o-text"], shifts=("ocr",), methods=("frozen",))
        ran = run_all([replace(text, choices=replace(choices, root=root))], tmp_path / "out")
        (note,) = ran.notes  # three pictures, and the five captions of each
        first, *named, rest = note.splitlines()
        assert (first, rest) == ("18 left out, unreadable:", "  and 8 more, which the cells name.")
        assert len(named) == 10 and "--strict" not in note
        assert len(ran.cells[0].settings["skipped"]) == 18


def test_from_a_folder_as_on_the_fly(plan, finished, root, tmp_path):
    from queryshift.lab.corruptions.files import Recipe, corrupt_files

    recipe = Recipe("image", "brightness", 5)  # draws nothing at random
    corrupt_files(recipe, root / "val2014", tmp_path / "made", "imagenet_c")
    one = replace(plan, shifts=("brightness",), seeds=(0,))
    made = replace(one, choices=replace(plan.choices, folder=tmp_path / "made"))
    fly = run_all([one], tmp_path / "fly")
    folder = run_all([made], tmp_path / "folder")
    assert same_ranks(fly.cells, folder.cells)
    with pytest.raises(BadFile, match=r"expected a folder fog/5 or COCO_IP_fog_5"):
        run_all([replace(made, shifts=("fog",))], tmp_path / "folder")


class TestComposed:
    def cell(self, name, root, out):
        edits = Choices(model="tangram-edits", root=root, preprocessing="library")
        context = RunContext()
        prepared = prepare(BENCHMARKS[name], edits, out, context)
        return prepared, run_cell(context, prepared, Task("noise+word", 5, 0, "frozen"))

    def test_fashion_iq_has_a_session_for_each_category(self, tmp_path):
        root = small.fashion_iq(tmp_path)
        prepared, cell = self.cell("fiq-o", root, tmp_path / "kept")
        assert cell.categories == {"dress": 2, "shirt": 2, "toptee": 2}
        assert [len(part.gallery) for part in prepared.parts] == [4, 4, 4]
        assert cell.ranks.max() <= 4
        recalls = [(cell.ranks[i : i + 2, 0] <= 1).mean() for i in (0, 2, 4)]
        assert cell.measure("recall@1") == pytest.approx(100 * np.mean(recalls))

    def test_cirr_leaves_out_the_reference_and_ranks_among_few(self, tmp_path):
        root = small.cirr(tmp_path)
        _, cell = self.cell("cirr-o", root, tmp_path / "kept")
        assert cell.ranks.max() <= 6  # of seven photos, one asks
        assert cell.subset_ranks.shape == (2, 1) and cell.subset_ranks.max() <= 5


class TestPlans:
    def test_a_series_keeps_the_shifts_a_row_has(self, plan):
        made = plans_for("coco-o", replace(plan, shifts=("fog", "ocr")))
        assert [(one.row.name, one.shifts) for one in made] == [
            ("coco-o-image", ("fog",)),
            ("coco-o-text", ("ocr",)),
        ]
        with pytest.raises(UnknownName, match='did you mean "fog"'):
            plans_for("coco-o", replace(plan, shifts=("fogg",)))

    def test_what_needs_a_translator_is_left_out_and_said(self, plan):
        text = replace(plan, row=BENCHMARKS["coco-o-text"], shifts=())
        assert len(text.tasks()) == 14 * 2 * 2
        wanted = "left out for want of a translator (--translator THERE BACK): backtranslation."
        assert text.notes() == [wanted]
        given = replace(text, choices=replace(plan.choices, translator=("a", "b")))
        assert (len(given.tasks()), given.notes()) == (15 * 2 * 2, [])
        mixed = replace(plan, row=BENCHMARKS["cirr-d"], shifts=())
        assert "no query draws backtranslation" in mixed.notes()[0]

    def test_nothing_left_is_an_error(self, plan):
        with pytest.raises(BadInput, match=r"nothing is left of coco-o-text: .*--translator THERE"):
            replace(plan, row=BENCHMARKS["coco-o-text"], shifts=("backtranslation",))

    def test_severities_belong_to_corruptions(self, plan):
        with pytest.raises(BadInput, match="corrupts nothing"):
            replace(plan, row=BENCHMARKS["general2coco-text"], severities=(3,))
        with pytest.raises(BadInput, match="from 1 to 5"):
            replace(plan, severities=(6,))

    def test_a_wrong_method_is_refused_before_anything_runs(self, plan):
        with pytest.raises(UnknownName, match='did you mean "tent"'):
            replace(plan, methods=("frozen", "tnt"))


def test_a_wrong_base_stops_the_run(plan, tmp_path):
    natural = replace(plan, row=BENCHMARKS["general2coco-image"], shifts=())
    with pytest.raises(BadInput, match="differs from the paper's"):
        run_all([natural], tmp_path, check=True)
    cells = read_lines(tmp_path / "general2coco-image.jsonl").cells
    assert {cell.method for cell in cells} == {"frozen"}


def test_a_base_with_nothing_to_compare_says_so(plan, copied):
    ran = run_all([plan], copied, never, check=True)
    assert "nothing to check" in ran.notes[0]
    clean = replace(
        plan,
        row=BENCHMARKS["tangram-clean-text"],
        shifts=(),
        seeds=(0,),
        choices=Choices(queries=16),
    )
    ran = run_all([clean], copied, check=True)
    assert "the paper has none of these rows" in ran.notes[0]  # clean, but not the paper's
    assert (ran.kept, len(ran.cells)) == (0, 2)  # the check's own cell was run just now


def test_a_model_without_the_modality_is_refused(plan, tmp_path):
    clips = replace(plan.choices, model="tangram-clips")
    with pytest.raises(BadInput, match="no encoder for image, only for video, audio"):
        prepare(plan.row, clips, tmp_path, RunContext())


def command(out, root, *more) -> list[str]:
    shifts = [one for name in ("gaussian_noise", "fog", "jpeg") for one in ("--shift", name)]
    return [
        *("run", "coco-o-image", "--model", "tangram"),
        *("--preprocessing", "library", "--device", "cpu", "--root", str(root), "--out", str(out)),
        *("-m", "frozen", "-m", "rest", "--seeds", "40", *shifts, *more),
    ]


def started(out, root, lines, *more) -> Command:
    """A run in another process that has finished a few cells."""
    process = start(*command(out, root, *more))
    for _ in range(5000):
        time.sleep(0.02)
        path = out / NAME
        if path.exists() and path.read_bytes().count(b"\n") >= lines:
            return process
        assert process.poll() is None, process.said()[1]
    process.kill()
    raise AssertionError("no cell was finished")


def test_interrupted_then_killed_then_continued(plan, root, finished, tmp_path):
    """Ctrl-C to a run of two processes, kill -9 to another: nothing that was finished is lost."""
    process = started(tmp_path, root, 5, "--jobs", "2")
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "Stopped; finished cells are in" in said and "Traceback" not in said
    stopped = read_lines(tmp_path / NAME).cells
    process = started(tmp_path, root, len(stopped) + 2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    killed = read_lines(tmp_path / NAME)
    assert len(killed.cells) >= len(stopped) + 2 and not killed.problems
    ran = run_all([plan], tmp_path)
    assert ran.kept >= 3 and same_ranks(ran.cells, finished[1].cells)
    keys = [cell.key for cell in read_lines(tmp_path / NAME).cells]
    assert len(keys) == len(set(keys)) == len(killed.cells) + 4 - ran.kept


def test_processes_give_the_same_cells_for_several_rows(plan, finished, tmp_path):
    text = replace(plan, row=BENCHMARKS["coco-o-text"], shifts=("ocr",), methods=("frozen",))
    with in_processes(2) as execute:
        ran = run_all([plan, text], tmp_path, execute)
    assert same_ranks(ran.cells[:4], finished[1].cells)
    assert same_ranks(ran.cells[4:], run_all([text], tmp_path / "alone").cells)


def test_without_ray_the_extra_is_named(monkeypatch):
    from queryshift.lab.evaluation.runner.cell_executors import on_ray

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"queryshift\[ray\]"):
        on_ray()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_ray_cluster_of_two_nodes_gives_the_same_cells(plan, finished, tmp_path):
    pytest.importorskip("ray")
    import ray
    from ray.cluster_utils import Cluster

    from queryshift.lab.evaluation.runner.cell_executors import on_ray

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address)
    try:
        nodes = {node["NodeID"] for node in ray.nodes()}
        ran = run_all([plan], tmp_path, on_ray())
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert same_ranks(ran.cells, finished[1].cells)
    assert {cell.settings["ray_node"] for cell in ran.cells} == nodes and len(nodes) == 2


def test_a_package_that_is_not_installed_is_told_as_such():
    from queryshift.lab.evaluation.runner.machine import _version

    assert _version("torch").startswith("2.")
    assert _version("no-such-package") == "not installed"
