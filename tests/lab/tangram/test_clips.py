"""Clips: what is seen and what is heard come from the same events."""

from dataclasses import replace

import numpy as np
import pytest

from queryshift.lab import tangram
from queryshift.lab.tangram.clips import FRAMES, RATE, SLOT, VOICES, Actor, Clip

ALWAYS = (1.0,) * FRAMES
STILL = Actor("circle", "medium", 1, ("red", "blue"), (0.5,) * FRAMES, ALWAYS, (), FRAMES)


def alone(background="white", **changes):
    return Clip((replace(STILL, **changes),), background)


def slots(clip):
    return clip.waveform().reshape(FRAMES, SLOT)


def pitch(samples):
    """The strongest frequency, in Hz."""
    power = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return power.argmax() * RATE / len(samples)


def test_a_clip_is_ten_pictures_and_a_sound_of_the_same_length():
    clip = tangram.clips("test", 1)[0]
    frames, wave = clip.frames(), clip.waveform()
    assert frames.shape == (10, 64, 64, 3) and frames.dtype == np.uint8
    assert wave.shape == (FRAMES * SLOT,) and wave.dtype == np.float32
    assert np.abs(wave).max() <= 1


def test_worlds_never_share_a_clip():
    worlds = [{clip.content() for clip in tangram.clips(split, 1000)} for split in tangram.SPLITS]
    assert len(set.union(*worlds)) == 1000 * len(tangram.SPLITS)


def test_the_same_seed_gives_the_same_clips():
    assert tangram.clips("dev", 20) == tangram.clips("dev", 60)[:20]
    assert tangram.clips("dev", 20) != tangram.clips("dev", 20, seed=1)


def test_no_two_of_the_test_clips_happen_alike():
    assert len({clip.content() for clip in tangram.clips("test", 2000)}) == 2000


def test_what_is_hidden_is_neither_seen_nor_heard():
    shown = (1.0, 0.0) * (FRAMES // 2)
    clip = alone(strengths=shown)
    for frame, sound, there in zip(clip.frames(), slots(clip), shown, strict=True):
        assert (frame != frame[0, 0]).any() == bool(there)
        assert (np.abs(sound).max() > 0.1) == bool(there)


def test_what_rises_sounds_higher():
    rising = slots(alone(heights=tuple(np.linspace(0, 1, FRAMES))))
    assert pitch(rising[-1]) > 1.7 * pitch(rising[0])


def test_what_is_larger_sounds_an_octave_lower():
    small, large = (pitch(slots(alone(size=size))[4]) for size in ("small", "large"))
    assert small == pytest.approx(4 * large, rel=0.05)


def test_a_bounce_knocks_and_a_change_of_colour_chimes():
    quiet = slots(alone())
    knocked = slots(alone(knocks=(3,)))
    chimed = slots(alone(change=6))
    assert np.flatnonzero(np.abs(knocked - quiet).max(1) > 0.1).tolist() == [3]
    assert np.flatnonzero(np.abs(chimed - quiet).max(1) > 0.1).tolist() == [6]
    frames = alone(change=6).frames()
    assert (frames[5] == frames[0]).all() and (frames[6] != frames[5]).any()


def test_colours_are_not_heard():
    assert (alone(colours=("green", "pink")).waveform() == alone().waveform()).all()


def test_every_shape_has_a_voice_of_its_own():
    spectra = [np.abs(np.fft.rfft(slots(alone(shape=shape))[4])) for shape in VOICES]
    for index, one in enumerate(spectra):
        for other in spectra[:index]:
            likeness = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
            assert likeness < 0.95


def test_every_background_has_an_air_of_its_own():
    airs = {paper: alone(paper).waveform() for paper in tangram.PLAIN.papers}
    for name, air in airs.items():
        assert all(name == other or np.abs(air - airs[other]).max() > 0.01 for other in airs)
