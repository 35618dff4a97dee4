"""Sounds are read alike however they are given; what cannot be read is refused in a sentence."""

import os
from io import BytesIO

import numpy as np
import pytest
import soundfile

import queryshift as qs
from queryshift.errors import BadFile, BadInput, BadItem
from queryshift.media.audio import read_audio, waveform, waveforms
from queryshift.media.waveform import Waveform

TONE = (0.5 * np.sin(np.arange(4000) / 9)).astype(np.float32)


def wav(samples, rate=16_000):
    buffer = BytesIO()
    soundfile.write(buffer, samples, rate, format="WAV", subtype="FLOAT")
    return buffer.getvalue()


def test_files_bytes_and_file_objects_are_taken(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(wav(np.stack([TONE, 0 * TONE], axis=1)))
    with path.open("rb") as file:
        for item in (path, path.read_bytes(), BytesIO(path.read_bytes()), file):
            assert np.allclose(waveform(item, 16_000), TONE / 2)


def test_a_file_keeps_its_rate():
    assert read_audio(wav(TONE, 8000)).rate == 8000
    assert len(waveform(wav(TONE, 8000), 16_000)) == 8000


def test_a_text_is_not_opened_as_a_path(tmp_path):
    (tmp_path / "a.wav").write_bytes(wav(TONE))
    with pytest.raises(BadItem, match=r"item 1, a str: .* pass pathlib\.Path\(\.\.\.\)"):
        waveforms([TONE, str(tmp_path / "a.wav")], 16_000)


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.wav")
    with pytest.raises(BadFile, match=r'pipe\.wav": got .* expected a regular file'):
        read_audio(tmp_path / "pipe.wav")


def test_the_length_is_checked_before_a_file_is_decoded(limited, monkeypatch):
    limited(seconds=0.25)
    monkeypatch.setattr(soundfile.SoundFile, "read", lambda *_, **__: pytest.fail("decoded"))
    with pytest.raises(BadItem, match=r"item 0, bytes: .*4,000 samples in 1 channels.*0.25 s or"):
        waveforms([wav(TONE)], 16_000)


def test_many_channels_count_together(limited):
    limited(seconds=1)
    assert len(read_audio(wav(np.zeros((1000, 40)))).samples) == 1000
    with pytest.raises(BadFile, match="1,000 samples in 48 channels"):
        read_audio(wav(np.zeros((1000, 48))))


def test_few_samples_at_a_low_rate_are_a_long_sound():
    with pytest.raises(BadInput, match="10,000 samples in 1 channels at 1 Hz; 7200 s or more"):
        waveform(Waveform(np.zeros(10_000), 1), 48_000)


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (0.5, "a float"),
        (None, "None"),
        ([[1, 2], [3]], "a list"),
        ((TONE, 16_000), "a tuple"),
        (np.array(3.0), "an ndarray"),
        (np.zeros((2, 9)), "an ndarray"),
        (np.zeros(0), "an ndarray"),
        (np.array([0.1, np.nan]), "an ndarray"),
        (np.array([1e300]), "an ndarray"),
        (b"RIFFxxxxWAVE", "bytes"),
        ("sound.wav", "a str"),
    ],
)
def test_what_is_no_sound_is_named_by_index_and_type(item, kind):
    with pytest.raises(BadItem, match=f"^item 1, {kind}: ") as caught:
        qs.load("tangram-clips")["audio"].encode([TONE, item])
    assert caught.value.index == 1
    assert "\n" not in str(caught.value)
