"""Corruptions made of corruptions."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryshift.errors import BadInput
from queryshift.lab.corruptions import both, corrupt, one_of, segments


def ones(item, severity, rng):
    return item + 1


def tens(item, severity, rng):
    return item + 10 * severity


def hundreds(item, severity, rng):
    return item + 100


def louder(text, severity, rng):
    return text + "!" * severity


def rng(seed=0):
    return np.random.default_rng(seed)


class TestSegments:
    def test_parts_are_contiguous_and_in_order(self):
        corrupted = segments(ones, tens, hundreds)(np.zeros(10), 2, rng())
        assert corrupted.tolist() == [1] * 3 + [20] * 3 + [100] * 4

    @given(length=st.integers(1, 50), count=st.integers(1, 9))
    def test_every_sample_meets_exactly_one_corruption(self, length, count):
        wave = np.arange(length)
        corrupted = segments(*[ones] * count)(wave, 1, rng())
        assert np.array_equal(corrupted, wave + 1)

    @given(length=st.integers(1, 50), count=st.integers(1, 9))
    def test_parts_differ_by_one_at_most(self, length, count):
        met = []

        def note(item, severity, rng):
            met.append(len(item))
            return item

        segments(*[note] * count)(np.zeros(length), 1, rng())
        assert sum(met) == length
        assert max(met) - min(met) <= 1
        assert len(met) == min(length, count)

    def test_one_sample_meets_the_last_corruption(self):
        assert segments(ones, tens, hundreds)(np.zeros(1), 1, rng()).tolist() == [100]

    def test_first_axis_is_cut_and_type_kept(self):
        clip = np.zeros((4, 2, 2, 3), np.float32)
        corrupted = segments(ones, hundreds)(clip, 1, rng())
        assert corrupted.shape == clip.shape
        assert corrupted.dtype == np.float32
        assert corrupted[:, 0, 0, 0].tolist() == [1, 1, 100, 100]

    def test_a_list_of_frames_stays_a_list(self):
        def doubled(frames, severity, rng):
            return [frame * 2 for frame in frames]

        def kept(frames, severity, rng):
            return frames

        assert segments(kept, doubled)([1, 2, 3], 1, rng()) == [1, 4, 6]

    def test_input_is_not_modified(self):
        wave = np.zeros(6)
        segments(ones, tens)(wave, 1, rng())
        assert not wave.any()

    def test_nothing_to_corrupt_is_refused(self):
        with pytest.raises(BadInput, match="length 0"):
            segments(ones, tens)(np.zeros(0), 1, rng())


class TestOneOf:
    def test_all_are_drawn_equally_often(self):
        drawn = one_of(ones, tens, hundreds)
        found = [int(drawn(np.zeros(1), 1, rng(seed))[0]) for seed in range(600)]
        counts = [found.count(value) for value in (1, 10, 100)]
        assert sum(counts) == 600
        assert min(counts) > 150

    def test_an_item_always_draws_the_same(self):
        drawn = one_of(ones, tens, hundreds)
        first, again = (
            [corrupt(np.zeros(1), drawn, 1, seed=3, item_id=i)[0] for i in order]
            for order in (range(20), reversed(range(20)))
        )
        assert first == again[::-1]


class TestBoth:
    def test_image_and_text_are_corrupted(self):
        image, text = both(hundreds, louder)((np.zeros(2), "a dog"), 3, rng())
        assert image.tolist() == [100, 100]
        assert text == "a dog!!!"

    @pytest.mark.parametrize("query", ["a dog", 7, (1, 2, 3)])
    def test_what_is_no_pair_is_refused(self, query):
        with pytest.raises(BadInput, match=r"pair \(image, text\)"):
            both(hundreds, louder)(query, 1, rng())


def test_they_nest_and_say_their_names():
    nested = segments(one_of(ones, tens), segments(hundreds, ones))
    assert nested.__name__ == "segments(one_of(ones, tens), segments(hundreds, ones))"
    assert nested(np.zeros(4), 1, rng())[2:].tolist() == [100, 1]
    assert one_of(both(ones, louder)).__name__ == "one_of(both(ones, louder))"


@pytest.mark.parametrize("make", [segments, one_of])
def test_none_at_all_is_refused(make):
    with pytest.raises(BadInput, match="at least one"):
        make()


@pytest.mark.parametrize("corruption", [segments(ones, tens), one_of(ones), both(ones, louder)])
def test_they_travel_to_other_processes(corruption):
    assert pickle.loads(pickle.dumps(corruption)) == corruption


@pytest.mark.parametrize("corruption", [segments(ones, tens), one_of(ones), both(ones, louder)])
def test_a_severity_out_of_range_is_refused(corruption):
    with pytest.raises(BadInput, match="severity is 0"):
        corruption((np.zeros(2), "text"), 0, rng())
