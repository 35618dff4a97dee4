import numpy as np
import pytest
from transformers.audio_utils import mel_filter_bank, spectrogram, window_function

from queryshift.errors import BadInput
from queryshift.models.cav_mae import RATE, log_mel


def tune(seconds, rate=RATE):
    at = np.arange(int(seconds * rate)) / rate
    noise = 0.02 * np.random.default_rng(0).standard_normal(len(at))
    return (0.4 * np.sin(2 * np.pi * 440 * at * (1 + at / 10)) + noise + 0.05).astype(np.float32)


@pytest.mark.filterwarnings("ignore:At least one mel filter")
def test_agrees_with_transformers():
    samples = tune(10)
    filters = mel_filter_bank(
        num_frequency_bins=257,
        num_mel_filters=128,
        min_frequency=20,
        max_frequency=8000,
        sampling_rate=RATE,
        norm=None,
        mel_scale="kaldi",
        triangularize_in_mel_space=True,
    )
    expected = spectrogram(
        samples,
        window_function(400, "hann", periodic=False),
        frame_length=400,
        hop_length=160,
        fft_length=512,
        power=2.0,
        center=False,
        preemphasis=0.97,
        mel_filters=filters,
        log_mel="log",
        mel_floor=1.192092955078125e-07,
        remove_dc_offset=True,
    ).T
    found = log_mel(samples)
    assert found.shape == expected.shape == (998, 128)
    assert np.abs(found - expected).max() < 1e-3


def test_silence_lies_on_the_floor():
    assert np.allclose(log_mel(np.zeros(400)), np.log(np.finfo(np.float32).eps))


def test_a_louder_sound_adds_the_same_to_every_bin():
    quiet, loud = log_mel(tune(1)), log_mel(2 * tune(1))
    heard = quiet > -12
    assert heard.mean() > 0.9
    assert np.allclose((loud - quiet)[heard], np.log(4), atol=1e-4)


def test_refuses_less_than_one_window():
    with pytest.raises(BadInput, match="399 samples is shorter than one window of 400"):
        log_mel(np.zeros(399))
