import numpy as np
import pytest

from queryshift.lab.corruptions.audio import synthetic_noise
from queryshift.lab.corruptions.audio.synthetic_noise import (
    coloured,
    fast_length,
    scatter,
    slow,
    unit,
)

RATE = 32_000
SOUNDS = {
    make.__name__: make(8 * RATE, RATE, np.random.default_rng(4))
    for make in (
        synthetic_noise.rain,
        synthetic_noise.thunder,
        synthetic_noise.wind,
        synthetic_noise.crowd,
        synthetic_noise.traffic,
    )
}


def share_db(wave, low, high):
    """The part of the power between two frequencies, in decibels."""
    power = np.abs(np.fft.rfft(wave)) ** 2
    hertz = np.fft.rfftfreq(len(wave), 1 / RATE)
    return 10 * np.log10(power[(hertz >= low) & (hertz < high)].sum() / power.sum())


def loudness(wave, seconds=0.05):
    frames = wave[: len(wave) // int(seconds * RATE) * int(seconds * RATE)]
    return np.sqrt((frames.reshape(-1, int(seconds * RATE)) ** 2).mean(axis=1))


def unevenness(wave):
    return loudness(wave).std() / loudness(wave).mean()


# Octave by octave, recordings of the same things lie within a few decibels of these bounds.
@pytest.mark.parametrize(
    ("name", "band", "least"),
    [
        ("rain", (1000, 8000), -2),
        ("thunder", (40, 500), -2),
        ("wind", (20, 500), -2),
        ("crowd", (200, 2000), -2),
        ("traffic", (60, 2000), -2),
    ],
)
def test_the_power_lies_where_it_does_in_recordings(name, band, least):
    assert share_db(SOUNDS[name], *band) > least


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("rain", 0.03, 0.2),
        ("traffic", 0.1, 0.5),
        ("crowd", 0.1, 0.4),
        ("wind", 0.1, 0.6),
        ("thunder", 0.8, 3.0),
    ],
)
def test_the_loudness_varies_as_it_does_in_recordings(name, least, most):
    assert least < unevenness(SOUNDS[name]) < most


def test_babble_pulses_at_the_rate_of_syllables():
    envelope = loudness(SOUNDS["crowd"])
    power = np.abs(np.fft.rfft(envelope - envelope.mean())) ** 2
    hertz = np.fft.rfftfreq(len(envelope), 0.05)
    assert power[(hertz > 2) & (hertz <= 6)].sum() > 0.3 * power[1:].sum()


def test_thunder_strikes_and_rolls_away():
    envelope = loudness(SOUNDS["thunder"], 0.25)
    peak = int(envelope.argmax())
    assert envelope[peak] > 3 * np.median(envelope)
    assert envelope[-4:].mean() < envelope[peak] / 3


@pytest.mark.parametrize(
    "make", [synthetic_noise.thunder, synthetic_noise.crowd, synthetic_noise.traffic]
)
@pytest.mark.parametrize("count", [1, 7, 1023, 1025])
def test_even_a_very_short_clip_gets_noise(make, count):
    noise = make(count, RATE, np.random.default_rng(0))
    assert noise.shape == (count,) and noise.dtype == np.float32
    assert np.isfinite(noise).all() and noise.any()


def test_coloured_noise_follows_its_curve():
    rng = np.random.default_rng(0)
    wave = coloured(8 * RATE, RATE, rng, ((100, 0), (1000, 0), (2000, -20), (16_000, -20)))
    density = share_db(wave, 200, 800) - 10 * np.log10(600)
    lower = share_db(wave, 3000, 12_000) - 10 * np.log10(9000)
    assert density - lower == pytest.approx(20, abs=0.5)
    assert np.std(wave) == pytest.approx(1, rel=1e-3)


def test_a_slow_curve_is_smooth_and_of_unit_size():
    curve = slow(100 * 1000, 1000, np.random.default_rng(0), 5)
    assert 0.5 < curve.std() < 1.2
    assert np.abs(np.diff(curve)).max() < 0.05


def test_grains_add_up_and_are_cut_at_the_end():
    wave = np.zeros(4, np.float32)
    scatter(wave, np.array([0, 0, 3]), np.array([[1, 2], [1, 2], [5, 9]], np.float32))
    assert wave.tolist() == [2, 4, 0, 5]


def test_silence_has_no_unit_power():
    assert not unit(np.zeros(5, np.float32)).any()
    assert len(unit(np.zeros(0, np.float32))) == 0


@pytest.mark.parametrize(
    ("count", "length"),
    [(1, 2), (7, 8), (11, 12), (1021, 1024), (160_000, 160_000), (160_001, 162_000)],
)
def test_transforms_have_quick_lengths(count, length):
    assert fast_length(count) == length
