import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryshift.errors import BadInput, UnknownName
from queryshift.lab.corruptions import combination, corrupt, find, one_of, segments
from queryshift.lab.corruptions.audio import (
    FAMILIES,
    GaussianNoise,
    Waveform,
    Wind,
    background_noise,
    gaussian_noise,
    rain,
    wind,
)
from queryshift.lab.corruptions.names import NAMES

ALL = [corruption for family in FAMILIES.values() for corruption in family]
EVERY = pytest.mark.parametrize("corruption", ALL, ids=lambda corruption: corruption.__name__)
RATE = 16_000


def rng(seed=0):
    return np.random.default_rng(seed)


def speech(seconds=1.0, rate=RATE, loudness=0.05):
    time = np.arange(int(seconds * rate)) / rate
    return (loudness * np.sin(2 * np.pi * 220 * time) * np.sin(2 * np.pi * 3 * time)).astype("f4")


def snr_db(clean, noisy):
    return 20 * np.log10(np.std(clean) / np.std(noisy - clean))


def test_the_families_are_those_of_the_table_of_names():
    named = {family: tuple(c.__name__ for c in members) for family, members in FAMILIES.items()}
    assert named == NAMES["audio"]


@EVERY
class TestEveryCorruption:
    @settings(max_examples=15, deadline=None)
    @given(
        count=st.integers(0, 3000),
        rate=st.sampled_from([1, 8000, 11_025, 48_000]),
        dtype=st.sampled_from(["f4", "f8", "i2", "i4"]),
        severity=st.integers(1, 5),
        seed=st.integers(0, 2**32),
    )
    def test_keeps_shape_type_rate_and_range(self, corruption, count, rate, dtype, severity, seed):
        samples = rng(seed).uniform(-0.9, 0.9, count)
        samples = (samples * (np.iinfo(dtype).max if dtype[0] == "i" else 1)).astype(dtype)
        before = samples.copy()
        first = corruption(Waveform(samples, rate), severity, rng(seed))
        again = corruption(Waveform(samples, rate), severity, rng(seed))
        assert first.rate == rate
        assert first.samples.shape == samples.shape and first.samples.dtype == samples.dtype
        assert dtype[0] == "i" or np.abs(first.samples).max(initial=0) <= 1
        assert np.array_equal(samples, before)
        assert np.array_equal(first.samples, again.samples)

    @pytest.mark.parametrize("severity", [1, 2, 3, 4, 5])
    def test_meets_the_signal_to_noise_ratio(self, corruption, severity):
        clean = speech()
        noisy = corruption(clean, severity, rng())
        assert snr_db(clean, noisy) == pytest.approx(background_noise.SNR_DB[severity - 1], abs=0.1)

    def test_moves_farther_at_severity_five_than_at_one(self, corruption):
        clean = speech(0.05)
        moved = [
            np.mean(
                [np.abs(corruption(clean, level, rng(item)) - clean).mean() for item in range(200)]
            )
            for level in (1, 5)
        ]
        assert moved[1] > 5 * moved[0]

    def test_differs_between_seeds(self, corruption):
        clean = speech(0.2)
        assert not np.array_equal(corruption(clean, 3, rng(1)), corruption(clean, 3, rng(2)))

    def test_leaves_silence_silent_because_a_ratio_to_nothing_is_nothing(self, corruption):
        silence = np.zeros(800, "f4")
        assert not corruption(silence, 5, rng()).any()
        assert not (corruption(silence + np.float32(0.5), 5, rng()) - 0.5).any()

    def test_adds_noise_to_silence_at_the_published_levels(self, corruption):
        assert replace(corruption, scale="read")(np.zeros(4000, "f4"), 1, rng()).any()

    @pytest.mark.parametrize(
        ("bad", "sentence"),
        [
            (np.zeros((2, 100), "f4"), r"shape \(2, 100\).*mean over its channels"),
            (np.array([0.0, np.nan], "f4"), "these reach nan"),
            (np.array([0.0, np.inf], "f4"), "these reach inf"),
            (np.array([0.0, 12000.0], "f4"), "these reach 12000"),
            (np.zeros(10, "u1"), "type uint8"),
            (np.zeros(10, "c8"), "type complex64"),
        ],
    )
    def test_refuses_what_is_no_mono_waveform(self, corruption, bad, sentence):
        with pytest.raises(BadInput, match=sentence):
            corruption(bad, 3, rng())

    @pytest.mark.parametrize("severity", [0, 6, 2.5, True])
    @pytest.mark.parametrize("scale", ["snr", "read"])
    def test_refuses_a_severity_out_of_range(self, corruption, severity, scale):
        for item in (speech(0.01), np.zeros(0, "f4")):
            with pytest.raises(BadInput, match="severity"):
                replace(corruption, scale=scale)(item, severity, rng())

    def test_names_the_scales_when_given_another(self, corruption):
        with pytest.raises(UnknownName, match="snr, read"):
            replace(corruption, scale="loud")


def test_published_gaussian_noise_has_an_absolute_deviation():
    silence = np.zeros(100_000, "f4")
    for severity, sigma in enumerate((0.08, 0.12, 0.18, 0.26), start=1):
        noisy = GaussianNoise(scale="read")(silence, severity, rng())
        assert np.std(noisy) == pytest.approx(sigma, rel=0.02)


def test_published_gains_are_decibels_on_the_noise():
    silence = np.zeros(16_000, "f4")
    heard = [np.std(Wind(scale="read")(silence, level, rng())) for level in (1, 2, 3, 4, 5)]
    gains = 20 * np.log10(np.array(heard) / background_noise.SYNTHETIC_RMS)
    assert gains == pytest.approx(background_noise.READ_GAIN_DB, abs=0.3)


def test_the_sum_is_cut_off_at_full_scale():
    loud = np.where(np.arange(4000) % 2, 1.0, -1.0)
    noisy = gaussian_noise(loud, 5, rng())
    assert noisy.max() == 1.0 and noisy.min() == -1.0


def test_integers_are_full_scale_pcm():
    pcm = (speech() * 32768).astype("i2")
    as_floats = rain(pcm / np.float32(32768), 3, rng())
    assert np.abs(rain(pcm, 3, rng()) - as_floats * 32768).max() <= 0.51


def test_the_rate_changes_what_is_heard():
    clean = speech()
    plain, same, other = (
        rain(item, 3, rng()) for item in (clean, Waveform(clean), Waveform(clean, 8000))
    )
    assert np.array_equal(plain, same.samples)
    assert not np.allclose(plain, other.samples, atol=1e-3)


def test_a_rate_of_zero_is_refused():
    with pytest.raises(BadInput, match="rate of 0"):
        Waveform(speech(0.1), 0)


def test_segments_and_draws_work_on_waveforms_of_any_rate():
    clean = Waveform(speech(0.3), 8000)
    nested = segments(rain, one_of(wind, gaussian_noise), wind)
    noisy = corrupt(clean, nested, 5, seed=0, item_id="clip")
    assert isinstance(noisy, Waveform)
    assert noisy.rate == 8000 and len(noisy) == len(clean)
    assert (noisy.samples != clean.samples).mean() > 0.9


def test_the_papers_combination_corrupts_both_halves():
    clean = speech()
    both = corrupt(clean, combination("audio", "noise+weather"), 5, seed=0, item_id=17)
    half = len(clean) // 2
    low = [
        np.abs(np.fft.rfft(part))[:60].sum() for part in (both - clean)[: 2 * half].reshape(2, -1)
    ]
    assert find("audio", "traffic") and low[1] != pytest.approx(low[0], rel=0.05)


def test_numpy_does_not_take_a_waveform_for_an_array():
    with pytest.raises(TypeError):
        np.mean(Waveform(speech(0.1)))


def test_a_corruption_with_options_is_still_called_by_its_name():
    assert Wind(scale="read").__name__ == wind.__name__ == "wind"
    assert pickle.loads(pickle.dumps(Wind(scale="read"))) == Wind(scale="read")
