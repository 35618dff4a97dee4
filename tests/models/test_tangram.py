"""The bundled models: their contract, their sizes, and how well they find things."""

import json
import string
from pathlib import Path

import numpy as np
import pytest
import torch

import queryshift as qs
from queryshift.errors import BadInput, UnknownName
from queryshift.lab import tangram
from queryshift.lab.corruptions import find
from queryshift.lab.tangram.model import WEIGHTS, text_ids, tokenizer
from queryshift.lab.tangram.scene_captions import COUNT
from queryshift.models import matcher

SIDES = [
    ("tangram", "image"),
    ("tangram", "text"),
    ("tangram-clips", "video"),
    ("tangram-clips", "audio"),
    ("tangram-edits", "image+text"),
    ("tangram-edits", "image"),
]


@pytest.fixture(scope="module")
def models():
    return {name: qs.load(name) for name in ("tangram", "tangram-clips", "tangram-edits")}


@pytest.fixture(scope="module")
def things():
    scenes, clips = tangram.scenes("test", 4), tangram.clips("test", 4)
    return {
        "image": [scene.image() for scene in scenes],
        "text": [tangram.captions(scene)[0] for scene in scenes],
        "video": [clip.frames() for clip in clips],
        "audio": [clip.waveform() for clip in clips],
        "image+text": [edit.query() for edit in tangram.edits("test", 4)],
    }


@pytest.mark.parametrize(("name", "modality"), SIDES, ids=[f"{n}-{m}" for n, m in SIDES])
class TestEveryEncoder:
    @pytest.fixture()
    def encoder(self, models, name, modality):
        return models[name][modality]

    @pytest.fixture()
    def batch(self, things, modality):
        return things[modality]

    def test_gives_unit_vectors_the_same_alone_and_together(self, encoder, batch):
        vectors = encoder.encode(batch)
        alone = torch.cat([encoder.encode([item]) for item in batch])
        assert vectors.shape == (4, 128)
        assert torch.allclose(vectors.norm(dim=1), torch.ones(4), atol=1e-6)
        assert torch.allclose(vectors, alone, atol=1e-5)
        assert (vectors @ vectors.T).fill_diagonal_(0).max() < 0.99

    def test_seen_through_its_own_parameters_is_itself(self, encoder, batch):
        seen = encoder.through(encoder.norm_params(), encoder.ready(batch))
        assert torch.equal(seen, encoder.encode(batch))

    def test_has_norms_from_the_first_block_on_and_gradients_reach_all(self, encoder, batch):
        params = {name: value.requires_grad_() for name, value in encoder.norm_params().items()}
        assert "tower.trunk.blocks.0.norm_attention.weight" in params
        vectors = encoder.through(params, encoder.ready(batch))
        pulled = torch.autograd.grad(vectors[:, :7].sum(), list(params.values()))
        assert all(gradient.abs().max() > 0 for gradient in pulled)

    def test_has_half_to_one_and_a_half_million_parameters(self, encoder):
        assert 0.5e6 <= sum(value.numel() for value in encoder.parameters()) <= 1.5e6

    def test_adapts_the_last_block_only_where_that_is_wished(self, name, modality, batch, encoder):
        cut = qs.load(name, adapt="last:1")[modality]
        assert len(cut.norm_params()) == 4
        seen = cut.through(cut.norm_params(), cut.ready(batch))
        assert torch.allclose(seen, encoder.encode(batch), atol=1e-6)


def test_the_stored_weights_are_small():
    assert sum(file.stat().st_size for file in WEIGHTS.iterdir()) <= 16e6


class TestTokenizer:
    def test_knows_every_character_at_the_start_of_a_word_and_inside(self):
        known = tokenizer().get_vocab()
        assert set(string.ascii_lowercase + string.digits + string.punctuation) <= set(known)
        assert {f"##{sign}" for sign in string.ascii_lowercase + string.digits} <= set(known)

    def test_misspelt_words_fall_into_pieces_not_into_the_unknown(self):
        pieces = tokenizer().encode("a lagre gr3en tirangle ta teh uper lfet").tokens
        assert "[UNK]" not in pieces and any(piece.startswith("##") for piece in pieces)

    def test_long_sentences_are_cut_and_short_ones_filled(self):
        ids = text_ids(["a star", "star " * 200])
        assert ids.shape == (2, 64) and (ids[0, 4:] == 0).all()

    def test_captions_of_every_world_are_spelt_without_the_unknown(self):
        scenes = tangram.scenes("test", 50) + tangram.crayon_scenes(50)
        told = [caption for scene in scenes for caption in tangram.captions(scene)]
        assert not (text_ids(told) == tokenizer().token_to_id("[UNK]")).any()


class TestPreparing:
    def test_pictures_of_another_size_are_brought_to_theirs(self, models):
        big = tangram.scenes("test", 1)[0].image().repeat(3, 0).repeat(3, 1)
        small = tangram.scenes("test", 1)[0].image()
        vectors = models["tangram"]["image"].encode([big, small])
        assert vectors[0] @ vectors[1] > 0.9

    def test_a_clip_of_other_length_is_refused(self, models):
        with pytest.raises(BadInput, match="7 frames, expected 10"):
            models["tangram-clips"]["video"].encode([np.zeros((7, 64, 64, 3), np.uint8)])

    @pytest.mark.parametrize("item", ["film.mp4", Path("film.mp4"), None, 3])
    def test_what_is_no_clip_is_refused(self, models, item):
        with pytest.raises(
            BadInput, match=f"item 0, .*{item and type(item).__name__}: expected a clip"
        ):
            models["tangram-clips"]["video"].encode([item])

    def test_one_clip_in_the_place_of_a_batch_is_refused(self, models, things):
        with pytest.raises(BadInput, match=r"item 0, .*: got one image, .* give \[clip\]"):
            models["tangram-clips"]["video"].encode(things["video"][0])

    def test_short_sounds_are_filled_and_long_ones_cut(self, models):
        encoder, wave = models["tangram-clips"]["audio"], tangram.clips("test", 1)[0].waveform()
        filled = np.concatenate([wave[:9000], np.zeros(len(wave) - 9000, np.float32)])
        vectors = encoder.encode([wave, np.concatenate([wave, wave]), wave[:9000], filled])
        assert torch.equal(vectors[0], vectors[1]) and torch.equal(vectors[2], vectors[3])


def recall(queries, candidates, own, owner):
    return 100 * float((owner[(queries @ candidates.T).argmax(1)] == own).float().mean())


def encoded(encoder, items):
    return torch.cat([encoder.encode(items[i : i + 100]) for i in range(0, len(items), 100)])


def scene_recalls(model, count, shift=lambda picture: picture):
    scenes = tangram.scenes("test", count)
    images = encoded(model["image"], [shift(scene.image()) for scene in scenes])
    texts = encoded(model["text"], [said for scene in scenes for said in tangram.captions(scene)])
    ids, owner = torch.arange(count), torch.arange(len(texts)) // COUNT
    return recall(images, texts, ids, owner), recall(texts, images, owner, ids)


def clip_recalls(model, count):
    clips, ids = tangram.clips("test", count), torch.arange(count)
    seen = encoded(model["video"], [clip.frames() for clip in clips])
    heard = encoded(model["audio"], [clip.waveform() for clip in clips])
    return recall(seen, heard, ids, ids), recall(heard, seen, ids, ids)


def edit_recall(model, count):
    edits = tangram.edits("test", count)
    shown = tangram.candidates(edits)
    queries = encoded(model["image+text"], [edit.query() for edit in edits])
    images, ids = encoded(model["image"], [scene.image() for scene in shown]), torch.arange(count)
    return recall(queries, images, ids, torch.arange(len(shown)))


class TestRecall:
    """On part of the test world; nearly all of it, as there are fewer candidates."""

    def test_of_scenes(self, models):
        to_text, to_image = scene_recalls(models["tangram"], 200)
        assert to_text >= 98 and to_image >= 96

    def test_of_clips(self, models):
        assert min(clip_recalls(models["tangram-clips"], 150)) >= 98

    def test_of_edits(self, models):
        assert edit_recall(models["tangram-edits"], 200) >= 78

    def test_falls_under_a_shift_so_that_there_is_something_to_adapt_to(self, models):
        noise = find("image", "gaussian_noise")
        chance = np.random.default_rng(0)
        shifted, _ = scene_recalls(models["tangram"], 100, lambda item: noise(item, 3, chance))
        assert shifted <= 70


@pytest.mark.slow
class TestRecallOfTheWholeTestWorld:
    def test_of_scenes(self, models):
        to_text, to_image = scene_recalls(models["tangram"], 2000)
        assert to_text >= 90 and to_image >= 75

    def test_of_clips(self, models):
        assert min(clip_recalls(models["tangram-clips"], 2000)) >= 80

    def test_of_edits(self, models):
        assert edit_recall(models["tangram-edits"], 2000) >= 80

    def test_the_matcher_ranks_better_than_the_cosine(self, models):
        model, scenes = models["tangram"], tangram.scenes("test", 2000)
        images = [scene.image() for scene in scenes]
        asked = [tangram.captions(scene)[0] for scene in scenes[:512]]
        gallery = qs.Gallery.build(model["image"], images)
        judged = matcher(model, "text").over(images)
        found = {}
        for name, second in (("cosine", None), ("matcher", judged)):
            session = qs.Session(model["text"], gallery, qs.Frozen(), matcher=second)
            best = [session.answer(asked[i : i + 64]).top(1).positions for i in range(0, 512, 64)]
            found[name] = (np.concatenate(best)[:, 0] == np.arange(512)).mean()
        assert found["matcher"] >= found["cosine"] + 0.01


class TestMatcher:
    @pytest.mark.parametrize("query", ["image", "text"])
    def test_ranks_the_right_candidate_first(self, models, query):
        model, scenes = models["tangram"], tangram.scenes("test", 40)
        sides = {
            "image": [scene.image() for scene in scenes],
            "text": [tangram.captions(scene)[0] for scene in scenes],
        }
        other = "text" if query == "image" else "image"
        gallery = qs.Gallery.build(model[other], sides[other])
        judged = matcher(model, query).over(sides[other])
        session = qs.Session(model[query], gallery, qs.Frozen(), matcher=judged)
        found = np.asarray(session.answer(sides[query]).top(1).positions)[:, 0]
        assert (found == np.arange(40)).mean() >= 0.95

    def test_tells_a_picture_with_one_thing_changed_from_the_right_one(self):
        edits = tangram.edits("test", 60)
        images = [scene.image() for edit in edits for scene in (edit.target, edit.reference)]
        told = [" and ".join(item.content() for item in edit.target.items) for edit in edits]
        judge = matcher("tangram", "text")
        kept = judge.keep(images)
        with torch.no_grad():
            verdicts = judge({"ids": text_ids(told)}, kept).diff()[:, 0].view(-1, 2)
        assert (verdicts[:, 0] > verdicts[:, 1]).float().mean() >= 0.7

    def test_is_small(self):
        head = matcher("tangram", "image")
        assert sum(value.numel() for value in head.parameters()) <= 1.5e6

    def test_there_is_none_for_sounds(self):
        with pytest.raises(UnknownName, match="image, text"):
            matcher("tangram", "audio")


def test_the_encoders_recommend_what_the_grid_found(models):
    stored = json.loads((WEIGHTS / "recommended.json").read_text())
    for name, modality in SIDES[:5]:
        advice = stored[f"{name}/{modality}"]
        assert {method: models[name][modality].recommended[method] for method in advice} == advice
    gallery = qs.Gallery.from_vectors([0, 1], torch.eye(2, 128))
    session = qs.Session(models["tangram"]["image"], gallery, qs.REST())
    assert session.method.lr == stored["tangram/image"]["rest"]["lr"]
