"""The page of an evaluation: its curve, its thumbnails, the queries it shows."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from queryshift.lab.evaluation.results import Cell
from queryshift.lab.own_traffic import evaluation_page
from queryshift.lab.own_traffic.evaluation_page import _shown, difficult, recall_along


def cell(method, ranks):
    return Cell(
        benchmark="own data",
        shift="",
        severity=0,
        protocol="online",
        method=method,
        seed=0,
        ranks=np.array(ranks)[:, None],
        candidates=100,
        seconds=1.0,
        settings={"top": [[rank - 1] for rank in ranks]},
    )


class TestCurve:
    @pytest.mark.parametrize(
        ("queries", "points"), [(1, 1), (63, 1), (64, 2), (96, 3), (767, 23), (768, 24), (5000, 24)]
    )
    def test_a_point_stands_for_32_queries_or_more_and_there_are_24_at_most(self, queries, points):
        chart = recall_along([cell("frozen", [1] * queries)])
        assert len(chart.lines["frozen"]) == points and chart.asked[-1] == queries

    def test_its_points_are_recalls_of_windows_and_its_bounds_whole_tens(self):
        ranks = [1] * 16 + [2] * 16 + [1] * 24 + [5] * 8
        chart = recall_along([cell("frozen", ranks), cell("rest", [1] * 32 + [2, 1] * 16)])
        assert chart.lines == {"frozen": [50.0, 75.0], "rest": [100.0, 50.0]}
        assert chart.asked == [32, 64] and chart.bounds == (50.0, 100.0)

    def test_its_bounds_are_the_nearest_whole_tens(self):
        chart = recall_along([cell("frozen", ([1, 2, 2, 2] * 8) + [1, 1, 1, 2] * 8)])
        assert chart.lines == {"frozen": [25.0, 75.0]} and chart.bounds == (20.0, 80.0)

    @pytest.mark.parametrize(("share", "bounds"), [(0, (0, 10)), (0.5, (50, 60)), (1, (100, 110))])
    def test_a_flat_curve_has_bounds_of_ten_points(self, share, bounds):
        right = int(share * 32)
        chart = recall_along([cell("frozen", [1] * right + [2] * (32 - right))])
        assert chart.bounds == bounds


class TestQueries:
    def evaluation(self, use, **ranks):
        cells = [cell(method, some) for method, some in ranks.items()]
        count = cells[0].queries
        columns = SimpleNamespace(
            modality="vector", ids=[f"q{i}" for i in range(count)], items=[None] * count
        )
        traffic = SimpleNamespace(
            queries=columns,
            candidates=SimpleNamespace(
                modality="vector", ids=[f"c{i}" for i in range(100)], items=[None] * 100
            ),
            query=lambda place: None,
            counted=list(range(count)),
            matches=[[0]] * count,
        )
        return SimpleNamespace(cells=cells, use=use, traffic=traffic)

    def shown(self, *given, **ranks):
        found = difficult(self.evaluation(*given, **ranks))
        return {title: [one.query.id for one in queries] for title, queries in found}

    def test_those_with_the_worst_ranks_come_first_and_right_ones_are_left_out(self):
        found = self.shown("rest", frozen=[1, 3, 2, 1], rest=[1, 2, 9, 4])
        assert found == {
            "Queries that rest answers worst": ["q2", "q3", "q1"],
            "Queries that rest answers worse than frozen": ["q2", "q3"],
        }

    def test_where_frozen_is_best_it_is_compared_with_the_default_or_the_last(self):
        ranks = {"frozen": [1, 1, 2], "default": [2, 1, 1], "rest": [1, 3, 1]}
        titles = self.shown("frozen", **ranks)
        assert titles["Queries that default answers worse than frozen"] == ["q0"]
        del ranks["default"]
        titles = self.shown("frozen", **ranks)
        assert titles["Queries that rest answers worse than frozen"] == ["q1"]

    def test_eight_are_shown_at_most_and_no_list_is_empty(self):
        found = self.shown("frozen", frozen=list(range(20, 0, -1)))
        assert found == {"Queries that frozen answers worst": [f"q{i}" for i in range(8)]}

    def test_each_method_has_its_rank_and_its_top_1_result(self):
        ((_, [one, *_]), *_) = difficult(self.evaluation("rest", frozen=[3, 1], rest=[7, 1]))
        assert one.right.id == "c0"
        assert [(method, rank, top.id) for method, rank, top in one.answers] == [
            ("frozen", 3, "c2"),
            ("rest", 7, "c6"),
        ]


def test_images_are_shown_small(monkeypatch):
    sizes = []
    monkeypatch.setattr(
        evaluation_page, "parts", lambda modality, item: sizes.append((item.size, item.mode)) or []
    )
    _shown("image", "a", np.zeros((300, 400, 3), np.uint8))
    _shown("image", "b", Image.new("RGBA", (40, 30)))
    assert sizes == [((160, 120), "RGB"), ((40, 30), "RGB")]
    assert _shown("video", 3, None) == ("3", [])
