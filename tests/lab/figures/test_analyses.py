"""The numbers of the analyses, against what can be said by hand."""

import pytest
import torch
from torch.nn.functional import normalize

from queryshift.errors import BadInput, UnknownName
from queryshift.lab.evaluation.ranks import gap, spread
from queryshift.lab.evaluation.stream_evaluation import StreamResult
from queryshift.lab.figures import angles, consistency, cost, offset, scaling, severity, stream
from queryshift.lab.figures.experiment import Experiment, Request


@pytest.fixture
def vectors():
    draw = torch.Generator().manual_seed(3)
    return normalize(torch.randn(30, 6, generator=draw) + 1, dim=1)


def test_scaling_by_one_changes_nothing(vectors):
    assert torch.allclose(scaling.scaled(vectors, 1.0), vectors, atol=1e-6)


def test_scaling_changes_uniformity_and_keeps_unit_length(vectors):
    wide, tight = scaling.scaled(vectors, 3.0), scaling.scaled(vectors, 0.2)
    assert spread(tight) < spread(vectors) < spread(wide)
    assert torch.allclose(wide.norm(dim=1), torch.ones(30))


def test_scaling_by_hand():
    queries = torch.tensor([[1.0, 0.0], [0.0, 1.0]])  # centre (0.5, 0.5)
    doubled = scaling.scaled(queries, 2.0)  # (1.5, -0.5) and its mirror image
    assert doubled.tolist()[0] == pytest.approx([0.948683, -0.316228], abs=1e-5)


def test_the_untouched_recall_is_the_frozen_models(experiment, chart_of):
    chart = chart_of("scaling")
    untouched = chart.lines[0].y[chart.lines[0].x.index(1.0)]
    assert untouched == pytest.approx(experiment.recall(experiment.method("frozen")))


def test_an_offset_of_one_lets_the_centres_meet():
    queries = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    candidates = torch.tensor([[[0.0, 1.0]], [[0.6, 0.8]]])
    assert torch.allclose(offset.moved(queries, candidates, 0.0), queries)
    assert gap(queries - queries.mean(dim=0) + candidates.mean(dim=(0, 1)), candidates) < 1e-6
    assert gap(offset.moved(queries, candidates, 1.0), candidates) < gap(queries, candidates)


def test_the_place_of_a_gap_is_interpolated_and_never_behind():
    gaps = [abs(1 - factor) for factor in offset.FACTORS]
    assert offset.crossing(gaps, 0.4) == pytest.approx(0.6)
    assert offset.crossing(gaps, 1.5) is None


def test_the_source_gap_is_that_of_a_session_that_never_moves(experiment):
    first = offset.source_gap(experiment)
    assert first > 0
    session = experiment.session(offset.REST(lr=0.0), steps=1)
    experiment.run(session)
    assert all(
        torch.equal(value, experiment.encoder.norm_params()[n])
        for n, value in session.params.items()
    )


def test_true_pairs_are_the_cosines_of_all_right_answers():
    queries = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    candidates = torch.tensor([[[1.0, 0.0]], [[0.6, 0.8]], [[0.0, -1.0]]])
    found = consistency.true_pairs(queries, candidates, [(0, 1), (2,)])
    assert found.tolist() == pytest.approx([1.0, 0.6, -1.0])


def test_shares_of_a_histogram_are_whole(chart_of):
    chart = chart_of("consistency")
    assert len(chart.edges) == consistency.BINS + 1
    for shares in chart.shares.values():
        assert sum(shares) == pytest.approx(100)


def test_recall_along_the_stream_follows_the_order_in_which_queries_came():
    order = torch.tensor([3, 1, 0, 2])
    ranks = torch.tensor([[5], [1], [5], [1]])  # the first two to come are right
    line = stream.along("one", StreamResult(ranks, order, 0.0, [], ranks), batch=2)
    assert line.x == [2, 4]
    assert line.y == [100.0, 50.0]


def test_the_window_forgets(monkeypatch):
    monkeypatch.setattr(stream, "WINDOW", 2)
    ranks = torch.tensor([[1], [1], [9], [9], [9]])
    line = stream.along("one", StreamResult(ranks, torch.arange(5), 0.0, [], ranks), batch=2)
    assert line.x == [2, 4, 5]
    assert line.y == [100.0, 0.0, 0.0]


def test_a_decoupled_gradient_never_opens_more_than_a_right_angle(experiment):
    found = angles.watched(experiment, experiment.method("tent+decoupled"))
    assert max(found.angles) <= 90.1
    assert found.answered == [12, 24]
    plain = angles.watched(experiment, experiment.method("tent"))
    assert plain.angles != found.angles


def test_a_part_of_a_gallery_is_its_beginning(gallery):
    half = cost.part(gallery, 0.5)
    assert list(half.ids) == list(gallery.ids)[:30]
    assert torch.allclose(half.vectors, gallery.vectors[:30])


def test_the_first_methods_ratio_is_one(chart_of):
    chart = chart_of("cost")
    assert chart.ratios["Tent"] == [1.0] * len(chart.columns)
    assert all(one > 0 for values in chart.rows.values() for one in values)


@pytest.mark.parametrize(
    ("benchmark", "shifts"),
    [
        ("tangram-o-image", {"gaussian_noise", "motion_blur", "fog", "jpeg"}),
        ("tangram-o-text", {"ocr", "synonym_replacement"}),
        ("tangram-o-audio", {"traffic", "wind"}),
        ("audioset-o-audio", {"noise+weather"}),
    ],
)
def test_severity_takes_one_shift_of_every_category(experiment, benchmark, shifts):
    from dataclasses import replace

    from queryshift.lab.evaluation.benchmarks import BENCHMARKS

    assert set(severity.shifts_of(replace(experiment, row=BENCHMARKS[benchmark]))) == shifts


@pytest.mark.parametrize(
    ("drawn_a_little", "untouched", "holds"), [(0, 0, True), (5, 5, True), (9, 5, False)]
)
def test_drawing_together_must_not_help_at_any_factor(
    opened, monkeypatch, drawn_a_little, untouched, holds
):
    known = {0.1: 0.0, 0.85: float(drawn_a_little), 1.0: float(untouched)}
    recalls = [known.get(factor, 0.0 if factor < 1 else 20.0) for factor in scaling.FACTORS]
    found = iter(2 * recalls)
    monkeypatch.setattr(Experiment, "recall_of", lambda self, vectors: next(found))
    monkeypatch.setattr(Experiment, "seen_by_source", lambda self, queries: torch.eye(2))
    assert scaling.compute(opened.request).holds is holds


def test_severity_asks_under_every_severity(opened, monkeypatch):
    def falling(self, method):
        return 100.0 - 10 * self.request.severity

    monkeypatch.setattr(Experiment, "recall", falling)
    chart = severity.compute(opened.request)
    assert [line.y for line in chart.lines] == [[90, 80, 70, 60, 50]] * 4
    assert "a shift drawn for each query at severities 1 to 5" in chart.about


def test_what_corrupts_nothing_has_no_severities(tmp_path):
    with pytest.raises(BadInput, match="tangram-clean-text corrupts nothing"):
        severity.compute(Request(benchmark="tangram-clean-text", kept=tmp_path))


def test_of_several_categories_the_caption_names_the_one_that_is_drawn(experiment):
    from dataclasses import replace

    from queryshift.lab.evaluation.benchmarks import BENCHMARKS

    fiq = replace(experiment, row=BENCHMARKS["fiq-o"])
    assert fiq.about.startswith("fiq-o, dress, noise+character at severity 3, 24 queries")


def test_names_that_do_not_exist_are_refused_at_once(tmp_path):
    with pytest.raises(UnknownName, match="tangram-o-image"):
        Experiment.open(Request(benchmark="tangram-o-imag", kept=tmp_path))
    with pytest.raises(UnknownName, match='did you mean "fog"'):
        Experiment.open(Request(benchmark="tangram-o-image", shift="fogg", kept=tmp_path))


def test_excluded_candidates_are_no_answers(experiment):
    from dataclasses import replace

    vectors = experiment.seen_by_source(experiment.queries)
    exclude = [[p for p in range(60) if p not in right] for right in experiment.dataset.matches]
    alone = replace(experiment, dataset=replace(experiment.dataset, exclude=exclude))
    assert alone.recall_of(vectors) == 100 > experiment.recall_of(vectors)


@pytest.mark.slow
def test_a_real_stage_keeps_its_gallery_for_the_next_figure(tmp_path):
    from queryshift.lab.evaluation.runner.plans import Choices

    request = Request(benchmark="tangram-o-text", choices=Choices(queries=64), kept=tmp_path)
    experiment = Experiment.open(request)
    assert (len(experiment.dataset), len(experiment.gallery), experiment.shift) == (64, 2000, "ocr")
    assert len(list(tmp_path.iterdir())) == 1
    assert experiment.recall_of(experiment.seen_by_source(experiment.clean)) > 80
    assert experiment.recall_of(experiment.seen_by_source(experiment.queries)) < 80
