import numpy as np
import pytest
import soundfile

from queryshift.errors import BadFile, BadInput
from queryshift.lab.corruptions.audio import Rain, Thunder, Waveform
from queryshift.lab.corruptions.audio.background_noise import excerpt
from queryshift.media.audio import resampled

RATE = 8000


def tone(hertz, seconds=1.0, rate=RATE, loudness=0.1):
    return loudness * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)


def loudest_hertz(wave, rate=RATE):
    return np.abs(np.fft.rfft(wave)).argmax() * rate / len(wave)


@pytest.fixture
def folder(tmp_path):
    soundfile.write(tmp_path / "rain-loud.wav", tone(1000), RATE)
    soundfile.write(tmp_path / "rain.wav", tone(500), RATE)
    (tmp_path / "thunder").mkdir()
    stereo = np.stack([tone(300, rate=16_000), np.zeros(16_000)], axis=1)
    soundfile.write(tmp_path / "thunder" / "far.flac", stereo, 16_000)
    (tmp_path / "rain-notes.txt").write_text("not a sound")
    return tmp_path


def added(corruption, severity, folder, seed=0, count=3 * RATE, **options):
    clean = Waveform(tone(50, count / RATE).astype("f4"), RATE)
    noisy = corruption(noise=folder, **options)(clean, severity, np.random.default_rng(seed))
    return noisy.samples - clean.samples


def test_all_recordings_of_the_kind_are_used(folder):
    pitches = {round(loudest_hertz(added(Rain, 3, folder, seed))) for seed in range(12)}
    assert pitches == {500, 1000}


def test_a_subfolder_other_rates_and_stereo_are_understood(folder):
    assert loudest_hertz(added(Thunder, 3, str(folder))) == pytest.approx(300, abs=1)


def test_the_ratio_holds_for_recordings(folder):
    noise = added(Rain, 4, folder)
    assert 20 * np.log10(np.std(tone(50)) / np.std(noise)) == pytest.approx(5, abs=0.1)


def test_excerpts_start_at_random_and_published_ones_at_the_start(folder):
    random = [added(Rain, 3, folder, seed, 100)[:5] for seed in range(4)]
    assert len({part.tobytes() for part in random}) == 4
    expected = np.tile(tone(500), 3) * 10 ** (4 / 20)
    for seed in range(3):
        assert added(Rain, 3, folder, seed, scale="read") == pytest.approx(expected, abs=1e-4)


def test_a_pause_in_a_recording_is_not_blown_up(tmp_path):
    mostly_silent = np.concatenate([np.full(20_000, 1e-6), tone(700, 0.5)])
    soundfile.write(tmp_path / "rain.wav", mostly_silent, RATE, subtype="FLOAT")
    for seed in range(5):
        cut = excerpt(tmp_path, "rain", 400, RATE, np.random.default_rng(seed))
        assert np.std(cut) > 0.01


@pytest.mark.parametrize("wanted", [4000, 11_025, 44_100])
def test_resampling_keeps_pitch_length_and_level(wanted):
    wave = resampled(tone(440).astype("f4"), RATE, wanted)
    assert len(wave) == wanted
    assert loudest_hertz(wave, wanted) == pytest.approx(440, abs=1)
    assert np.std(wave) == pytest.approx(np.std(tone(440)), rel=0.01)


def test_a_folder_without_the_kind_says_what_it_should_hold(tmp_path):
    with pytest.raises(BadInput, match=r"no recording of rain .*rain\*\.wav"):
        added(Rain, 1, tmp_path)
    with pytest.raises(BadInput, match="not a folder"):
        added(Rain, 1, tmp_path / "nowhere")


def test_a_damaged_or_silent_recording_is_named(tmp_path):
    (tmp_path / "rain.wav").write_bytes(b"RIFF of a kind")
    with pytest.raises(BadFile, match=r"rain\.wav"):
        added(Rain, 1, tmp_path)
    soundfile.write(tmp_path / "thunder.wav", np.zeros(100), RATE)
    with pytest.raises(BadFile, match="silent"):
        added(Thunder, 1, tmp_path)
