"""What happens to items on their way in: cuts, padding, colours, rates, published habits."""

import threading
import warnings

import numpy as np
import pytest
import torch
from PIL import Image

import queryshift as qs
from queryshift.errors import BadInput, BadItem
from queryshift.media.audio import waveform
from queryshift.media.images import rgb
from queryshift.models.tokenising import clean_caption

LONG = "a red square " * 40


class Recording:
    def __init__(self, samples, rate):
        self.samples, self.rate = samples, rate


class TestTexts:
    def test_are_padded_to_the_longest_of_the_batch(self, checkpoint):
        text = qs.load(checkpoint("CLIPModel"))["text"]
        alone = text.prepare(["an arrow"])["input_ids"]
        beside = text.prepare(["an arrow", "two small stars"])["input_ids"]
        assert alone.shape[1] < beside.shape[1] < 40

    @pytest.mark.parametrize("architecture", ["SiglipModel", "Siglip2Model"])
    def test_are_padded_to_the_limit_where_the_last_place_is_read(self, checkpoint, architecture):
        prepared = qs.load(checkpoint(architecture))["text"].prepare(["an arrow"])
        assert {name: tuple(ids.shape) for name, ids in prepared.items()} == {"input_ids": (1, 24)}

    @pytest.mark.parametrize(
        ("architecture", "limit"),
        [
            ("CLIPModel", 40),
            ("AltCLIPModel", 30),
            ("ChineseCLIPModel", 40),
            ("SiglipModel", 24),
            ("ClapModel", 30),
            ("BlipForImageTextRetrieval", 40),
            ("Blip2ForImageTextRetrieval", 40),
        ],
    )
    def test_too_long_are_cut_with_one_warning(self, checkpoint, architecture, limit):
        text = qs.load(checkpoint(architecture))["text"]
        with pytest.warns(UserWarning, match=f"longer than the {limit}"):
            assert text.prepare([LONG, "an arrow"])["input_ids"].shape == (2, limit)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            vectors = text.encode([LONG])
        assert vectors.isfinite().all()

    def test_are_read_in_a_process_forked_while_another_thread_reads(self, checkpoint, forked):
        text = qs.load(checkpoint("CLIPModel"))["text"]
        begun, over = threading.Event(), threading.Event()

        def read():
            with text.read._lock:
                begun.set()
                over.wait()

        reader = threading.Thread(target=read)
        reader.start()
        begun.wait()
        try:
            assert forked(lambda: len(text.prepare(["an arrow"])["input_ids"]) == 1)
        finally:
            over.set()
            reader.join()

    def test_that_just_fit_are_not_warned_of(self, checkpoint):
        text = qs.load(checkpoint("AltCLIPModel"))["text"]
        assert text.prepare(["a " * 28])["input_ids"].shape == (1, 30)

    @pytest.mark.parametrize(
        ("item", "complaint"),
        [
            (None, "item 1, None: expected a text"),
            (b"a star", "item 1, bytes: expected a text"),
            (3, "item 1, an int: expected a text"),
            (["a", "star"], "item 1, a list: expected a text"),
            ("a st\udc84r", r"item 1, a str: got '\\udc84', half a character"),
        ],
    )
    def test_must_be_strings_that_can_be_written(self, checkpoint, item, complaint):
        for model in (qs.load(checkpoint("CLIPModel")), qs.load("tangram")):
            with pytest.raises(BadInput, match=complaint):
                model["text"].encode(["an arrow", item])

    def test_with_a_picture_each_must_be_pairs(self):
        encoder, picture = qs.load("tangram-edits")["image+text"], np.zeros((9, 9, 3), np.uint8)
        for batch in ([(picture, "red"), "red"], [(picture, "red"), (picture,)]):
            with pytest.raises(BadInput, match=r"item 1, a .* a pair \(image, text\)"):
                encoder.encode(batch)
        with pytest.raises(BadInput, match="item 1, None: expected a text"):
            encoder.encode([(picture, "red"), (picture, None)])


class TestPictures:
    @pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1", "LA"])
    def test_of_other_modes_are_converted(self, mode, checkpoint):
        red = Image.new("RGB", (20, 30), (200, 30, 30)).convert(mode)
        assert rgb(red).mode == "RGB"
        assert qs.load(checkpoint("CLIPModel"))["image"].encode([red]).shape == (1, 12)

    def test_may_be_arrays_or_files(self, tmp_path):
        colours = np.random.default_rng(0).integers(0, 255, (6, 5, 3), dtype=np.uint8)
        Image.fromarray(colours).save(tmp_path / "a.png")
        for item in (colours, colours / 255.0, tmp_path / "a.png"):
            assert np.array_equal(np.asarray(rgb(item)), colours)
        assert rgb(colours[..., :1]).mode == "RGB"

    @pytest.mark.parametrize(
        ("item", "complaint"),
        [
            (np.zeros((4, 4, 7), np.uint8), r"shape \(4, 4, 7\)"),
            (np.full((4, 4, 3), 300.0), "floats from 0 to 1"),
            (np.zeros((4, 4, 3), np.int32), "int32"),
            (Image.new("I", (4, 4)), "mode I"),
            (Image.new("RGB", (0, 4)), "an image of 0 x 4 pixels"),
            (np.zeros((0, 9, 3), np.uint8), "an image of 9 x 0 pixels"),
            (np.zeros((9, 0, 3)), "an image of 0 x 9 pixels"),
        ],
    )
    def test_that_cannot_be_understood_are_refused(self, item, complaint):
        with pytest.raises(qs.Error, match=complaint):
            rgb(item)

    def test_whose_file_cannot_be_read_are_named(self, tmp_path):
        image = qs.load("tangram")["image"]
        with pytest.raises(BadItem, match=r'item 0, a .*: there is no file ".*gone\.png"'):
            image.encode([tmp_path / "gone.png"])
        whole, cut = tmp_path / "whole.png", tmp_path / "cut.png"
        Image.effect_noise((50, 50), 90).save(whole)
        cut.write_bytes(whole.read_bytes()[:999])
        (tmp_path / "text.png").write_text("no picture")
        for path in (cut, tmp_path / "text.png"):
            with pytest.raises(BadItem, match=f"item 1.*{path.name}.* cannot be read as an image"):
                image.encode([whole, path])

    def test_may_be_a_file_of_any_kind(self, tmp_path):
        noise = Image.effect_noise((50, 40), 90)
        for kind in ("gif", "png", "tiff", "webp"):
            noise.save(tmp_path / f"noise.{kind}", lossless=True)
            shown = np.asarray(rgb(tmp_path / f"noise.{kind}"))
            assert np.array_equal(shown, np.asarray(noise.convert("RGB")))

    @pytest.mark.parametrize("channels", [1, 3, 4])
    def test_given_as_the_batch_are_not_taken_apart_into_rows(self, channels):
        encoder = qs.load("tangram")["image"]
        four = np.random.default_rng(2).integers(0, 255, (4, 20, 30, channels), np.uint8)
        with pytest.raises(qs.Error, match=rf"shape \(30, {channels}\), one row.*\[image\]"):
            encoder.encode(four[0])
        assert torch.equal(encoder.encode(four), encoder.encode(list(four)))

    def test_may_be_grey_and_narrow(self):
        assert rgb(np.zeros((9, 3, 1), np.uint8)).size == (3, 9)


class TestSounds:
    def test_of_another_rate_are_resampled(self):
        seconds = np.arange(8000) / 16_000
        tone = np.sin(2 * np.pi * 440 * seconds)
        found = waveform(tone, 48_000)
        expected = np.sin(2 * np.pi * 440 * np.arange(24_000) / 48_000)
        assert found.shape == expected.shape
        assert np.abs(found - expected)[200:-200].max() < 1e-3

    def test_keep_the_rate_they_came_with(self):
        wave = np.linspace(-1, 1, 480)
        assert np.array_equal(waveform(Recording(wave, 48_000), 48_000), wave.astype(np.float32))
        assert len(waveform(Recording(wave, 44_100), 16_000)) == round(480 * 16_000 / 44_100)

    @pytest.mark.parametrize(
        "item", [np.zeros((2, 100)), np.zeros(0), Recording(np.zeros(9), 0), np.zeros(9, "u2")]
    )
    def test_that_cannot_be_understood_are_refused(self, item):
        with pytest.raises(qs.Error, match="one channel"):
            waveform(item, 48_000)

    @pytest.mark.parametrize("item", [(np.zeros(9), 48_000), "sound.wav", None])
    def test_pairs_with_the_rate_and_names_of_files_are_refused(self, item):
        with pytest.raises(qs.Error, match=r"expected audio as .* Waveform\(samples, rate"):
            waveform(item, 48_000)

    def test_too_long_are_cut_at_their_end_with_one_warning(self, checkpoint, items):
        audio = qs.load(checkpoint("ClapModel"))["audio"]
        wave = np.random.default_rng(3).uniform(-0.5, 0.5, 48_000)
        long, start = (Recording(samples, 48_000) for samples in (np.tile(wave, 2), wave))
        with pytest.warns(UserWarning, match="2.0 s is longer than the 1 s"):
            cut = audio.encode([long])
        assert torch.equal(cut, audio.encode([start]))
        assert torch.equal(cut, audio.encode([long]))

    def test_of_a_fused_checkpoint_do_not_depend_on_chance(self, tmp_path, items):
        import tiny_checkpoints

        audio = qs.load(tiny_checkpoints.clap(tmp_path, fused=True))["audio"]
        assert not any("fusion" in name for name in audio.norm_params())
        assert torch.equal(audio.encode(items["audio"]), audio.encode(items["audio"]))


class TestPublished:
    def test_captions_are_cleaned(self):
        messy = 'A  "Red"  car; parked (badly) #1!\n'
        assert clean_caption(messy) == "a red car parked badly 1"
        assert clean_caption("it's a well-known,  fact.") == "it's a well-known, fact"
        assert len(clean_caption("word " * 99).split()) == 30

    def test_blip_takes_35_tokens(self, checkpoint):
        text = qs.load(checkpoint("BlipForImageTextRetrieval"), preprocessing="published")["text"]
        with pytest.warns(UserWarning, match="longer than the 35"):
            assert text.prepare(["AN ARROW!", LONG])["input_ids"].shape == (2, 35)
        assert torch.equal(text.encode(["AN ARROW!"]), text.encode(["an arrow"]))

    def test_clip_squeezes_where_the_library_crops(self, checkpoint):
        published = qs.load(checkpoint("CLIPModel"), preprocessing="published")
        library = qs.load(checkpoint("CLIPModel"))
        wide = Image.fromarray(np.random.default_rng(1).integers(0, 255, (32, 64, 3), np.uint8))
        square = wide.resize((32, 32), Image.Resampling.BICUBIC)
        squeezed = published["image"].prepare([wide])["pixel_values"]
        assert torch.equal(squeezed, library["image"].prepare([square])["pixel_values"])
        assert not torch.equal(squeezed, library["image"].prepare([wide])["pixel_values"])

    def test_clip_text_leaves_its_final_norm_alone(self, checkpoint):
        published = qs.load(checkpoint("CLIPModel"), preprocessing="published")["text"]
        library = qs.load(checkpoint("CLIPModel"))["text"]
        left = set(library.norm_params()) - set(published.norm_params())
        assert left == {"tower.final_layer_norm.weight", "tower.final_layer_norm.bias"}

    @pytest.mark.parametrize(
        "architecture", ["AltCLIPModel", "SiglipModel", "ClapModel", "Blip2ForImageTextRetrieval"]
    )
    def test_is_refused_where_none_is_known(self, checkpoint, architecture):
        with pytest.raises(qs.Error, match="no published preprocessing"):
            qs.load(checkpoint(architecture), preprocessing="published")


def test_a_photograph_that_was_taken_sideways_is_read_upright(tmp_path):
    upright = np.zeros((6, 10, 3), np.uint8)
    upright[:, :5] = 255
    turned = Image.fromarray(np.rot90(upright).copy())
    exif = turned.getexif()
    exif[0x0112] = 6  # to be turned by 90 degrees to the right
    turned.save(tmp_path / "phone.png", exif=exif)
    assert np.array_equal(np.asarray(rgb(tmp_path / "phone.png")), upright)
