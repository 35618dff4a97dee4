"""BLIP's matching head as a matcher: the same verdicts as Hugging Face's and the authors' code."""

from pathlib import Path
from types import SimpleNamespace

import original_checkpoints
import pytest
import torch
import transformers
from reference_blip import Reference
from three_items import SENTENCES, pictures

from queryshift.errors import BadFile, BadInput, UnknownName
from queryshift.models import blip, load, matcher
from queryshift.models.blip import ImageMatcher
from queryshift.models.blip_original import FORMAT, build
from queryshift.models.checkpoints import Checkpoint

CAPTIONS = [*SENTENCES, "stars", "a small red beach on a square"]
PICTURES = pictures(5)
POSITIONS = torch.tensor([[0, 4, 1], [2, 3, 3]])  # of candidates, for two queries


@pytest.fixture(scope="module")
def folder(checkpoint):
    return checkpoint("BlipForImageTextRetrieval")


@pytest.fixture(scope="module")
def model(folder):
    return load(folder)


@pytest.fixture
def in_full(monkeypatch):
    """Pictures' tokens kept in full precision, to compare to the last digits."""
    monkeypatch.setattr(ImageMatcher, "kept_as", torch.float32)


def sides(query):
    """Two queries and five candidates."""
    return (PICTURES[:2], CAPTIONS) if query == "image" else (CAPTIONS[:2], PICTURES)


@torch.no_grad()
def verdicts(model, query, params=None):
    asked, candidates = sides(query)
    encoder = model[query]
    _, readings = encoder.through_for_matcher({}, encoder.ready(asked))
    return matcher(model, query).over(candidates, 2).logits(params or {}, readings, POSITIONS)


def expanded(model, query):
    """Pixels, ids with [ENC] in the first place, and masks of all pairs, one by one."""
    asked = torch.arange(2).repeat_interleave(3)
    rows = (asked, POSITIONS.flatten()) if query == "image" else (POSITIONS.flatten(), asked)
    pixels = model["image"].prepare(PICTURES)["pixel_values"]
    tokens = model["text"].prepare(CAPTIONS)
    ids = tokens["input_ids"].clone()
    ids[:, 0] = model["text"].words.tokenizer.convert_tokens_to_ids("[ENC]")
    return pixels[rows[0]], ids[rows[1]], tokens["attention_mask"][rows[1]]


@torch.no_grad()
@pytest.mark.parametrize("query", ["image", "text"])
def test_verdicts_are_hugging_face_s(folder, model, query, in_full):
    theirs = transformers.BlipForImageTextRetrieval.from_pretrained(folder).eval()
    pixels, ids, mask = expanded(model, query)
    expected = theirs(ids, pixels, attention_mask=mask, use_itm_head=True).itm_score
    assert torch.allclose(verdicts(model, query).flatten(0, 1), expected, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("query", ["image", "text"])
def test_verdicts_are_those_of_the_authors_files(tmp_path, query, in_full):
    reference, path = original_checkpoints.blip(tmp_path)
    model = load(path)
    expected = reference.matching(*expanded(model, query))
    assert torch.allclose(verdicts(model, query).flatten(0, 1), expected, atol=1e-5)


def test_pictures_are_kept_in_half_precision_on_the_cpu(model, monkeypatch):
    kept = matcher(model, "text").over(PICTURES).candidates["tokens"]
    assert (kept.dtype, kept.device.type) == (torch.float16, "cpu")
    rounded = verdicts(model, "text")
    monkeypatch.setattr(ImageMatcher, "kept_as", torch.float32)
    assert 0 < (verdicts(model, "text") - rounded).abs().max() < 5e-3


def test_captions_are_kept_as_tokens(model):
    kept = matcher(model, "image").over(CAPTIONS, 2).candidates
    assert {name: tensor.dtype for name, tensor in kept.items()} == {
        "input_ids": torch.long,
        "attention_mask": torch.long,
    }


@torch.no_grad()
def test_a_picture_s_keys_and_values_are_computed_once_for_all_its_captions(model):
    judge = matcher(model, "image")
    tokens = model["image"].through_for_matcher({}, model["image"].ready(PICTURES[:2]))[1]["tokens"]
    kept = judge.keep([CAPTIONS[p] for p in POSITIONS.flatten()]).values()
    projected = []
    keys = model["text"].tower.encoder.layer[0].crossattention.self.key
    with keys.register_forward_hook(lambda module, given, keys: projected.append(len(keys))):
        shared = judge.judged(tokens, *kept)
        apart = judge.judged(tokens.repeat_interleave(3, dim=0), *kept)
    assert projected == [2, 6]
    assert torch.allclose(shared, apart, atol=1e-6)


@torch.no_grad()
def test_padding_is_cut_to_the_longest_caption_of_the_chunk(model):
    judge = matcher(model, "image")
    tokens = model["image"].through_for_matcher({}, model["image"].ready(PICTURES[:1]))[1]["tokens"]
    ids, mask = judge.keep(CAPTIONS[:1]).values()
    widths = []
    embeddings = model["text"].tower.embeddings
    with embeddings.register_forward_hook(lambda module, given, rows: widths.append(rows.shape[1])):
        plain = judge.judged(tokens, ids, mask)
        filled = judge.judged(
            tokens, *(torch.nn.functional.pad(one, (0, 9)) for one in (ids, mask))
        )
    assert widths == [ids.shape[1]] * 2
    assert torch.equal(plain, filled)


def slopes(model, query):
    """Gradient of the first verdict by name: the query encoder's part, and the matcher's own."""
    asked, candidates = sides(query)
    encoder, judge = model[query], matcher(model, query)
    params = {**encoder.norm_params(), **judge.own_params()}
    params = {name: value.requires_grad_() for name, value in params.items()}
    mine = {name: value for name, value in params.items() if not name.startswith("matcher.")}
    _, readings = encoder.through_for_matcher(mine, encoder.ready(asked))
    found = judge.over(candidates).logits(params, readings, POSITIONS)[..., 1].sum()
    grads = torch.autograd.grad(found, [*params.values()], allow_unused=True)
    return {n: g is not None and bool(g.any()) for n, g in zip(params, grads, strict=True)}


@pytest.mark.parametrize(("query", "encoder_s", "own"), [("image", 18, 26), ("text", 18, 8)])
def test_gradients_reach_both_parts(model, query, encoder_s, own):
    reached = slopes(model, query)
    names = [name for name in reached if name.startswith("matcher.")]
    assert (len(reached) - len(names), len(names)) == (encoder_s, own)
    assert all(reached.values())


def test_for_text_queries_the_encoder_s_norms_are_twins(model):
    judge = matcher(model, "text")
    assert set(judge.shared_names) == set(model["text"].norm_params())
    assert all(".crossattention." in name for name in judge.own_params())
    changed = {name: value + 0.3 for name, value in model["text"].norm_params().items()}
    assert (verdicts(model, "text", changed) - verdicts(model, "text")).abs().max() > 1e-3
    assert not matcher(model, "image").shared_names


@pytest.mark.parametrize("query", ["image", "text"])
def test_a_model_cut_below_its_last_block_gives_the_same(folder, model, query):
    cut = load(folder, adapt="last:1")
    assert torch.allclose(verdicts(cut, query), verdicts(model, query), atol=1e-6)
    assert all("layer.3." in name for name in matcher(cut, "text").shared_names)


@pytest.mark.parametrize("query", ["image", "text"])
def test_half_precision_is_close(folder, model, query):
    half = verdicts(load(folder, precision="bfloat16"), query)
    assert half.dtype == torch.float32
    assert 0 < (half - verdicts(model, query)).abs().max() < 0.05


@pytest.mark.parametrize(("query", "layers", "own"), [("image", 37, 56_832), ("text", 12, 18_432)])
def test_the_real_size_has_so_many_parameters_of_its_own(query, layers, own):
    with torch.device("meta"):
        weights = Reference(384, (768, 12, 12), (30524, 512, 768, 12, 12), 256).state_dict()
    words = SimpleNamespace(tokenizer=SimpleNamespace(get_vocab=lambda: {"[ENC]": 30523}))
    sides = blip.encoders(build(Checkpoint(Path("b.pth"), FORMAT, weights)), None, words)
    params = matcher(sides, query).own_params()
    assert (len(params) // 2, sum(value.numel() for value in params.values())) == (layers, own)


class TestGettingOne:
    def test_by_directory_and_by_model(self, folder, model):
        by_name, by_model = matcher(folder, "image"), matcher(model, "image")
        assert by_name.fingerprint() == by_model.fingerprint()
        assert by_name.rerank == by_model.rerank == 128

    def test_a_name_tells_how_many_are_ranked_anew(self, folder, tmp_path):
        for name, count in (("blip-COCO", 256), ("blip-flickr", 128)):
            (tmp_path / name).symlink_to(folder)
            assert matcher(tmp_path / name, "text").rerank == count
            assert matcher(load(tmp_path / name), "text").rerank == count
        assert matcher(tmp_path / "blip-COCO", "text", rerank=7).rerank == 7

    def test_of_a_model_that_has_none(self, checkpoint):
        with pytest.raises(BadInput, match="text side is Tower: expected BlipForImageText"):
            matcher(checkpoint("ChineseCLIPModel"), "image")
        with pytest.raises(BadInput, match="a model of audio, video"):
            matcher("tangram-clips", "video")

    def test_for_queries_it_has_none_for(self, model):
        with pytest.raises(UnknownName, match='"audio"'):
            matcher(model, "audio")

    def test_without_the_first_token_is_refused(self, model, monkeypatch):
        words = model["text"].words.tokenizer
        known = {word: row for word, row in words.get_vocab().items() if word != "[ENC]"}
        monkeypatch.setattr(type(words), "get_vocab", lambda self: known)
        with pytest.raises(BadFile, match=r"has the token \[ENC\]"):
            matcher(model, "image")

    def test_the_first_token_is_the_last_word_if_the_tokenizer_has_fewer(self, model, monkeypatch):
        rows = len(model["text"].tower.embeddings.word_embeddings.weight)
        kind = type(model["text"].words.tokenizer)
        monkeypatch.setattr(kind, "get_vocab", lambda self: {})
        monkeypatch.setattr(kind, "__len__", lambda self: rows - 2)
        assert blip._first_token(model["text"]) == rows - 1
