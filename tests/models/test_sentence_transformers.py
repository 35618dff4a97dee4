"""Models in the format of sentence-transformers: they agree with the library, or are refused."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image
from sentence_checkpoints import of_clip, padded_before, sentence, with_dense
from three_items import SENTENCES, pictures

import queryshift as qs
from queryshift.errors import BadFile, BadInput
from queryshift.models.sentence_transformers import MODES, Pooling

TEXTS = [*SENTENCES, "A Red  square"]
MODELS = {
    **{mode: lambda at, mode=mode: sentence(at, {"pooling_mode": mode}) for mode in MODES},
    "flags": lambda at: sentence(
        at, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    ),
    "no-pooler": lambda at: sentence(at, model="BertForMaskedLM", do_lower_case=True),
    "default-prompt": lambda at: sentence(at, prompts={"short": "red "}, default="short"),
    "short-texts": lambda at: sentence(at, max_seq_length=8),
    "dense": with_dense,
    "dense-pickle": lambda at: with_dense(at, "linear.Identity", as_pickle=True),
    "decoder": lambda at: padded_before(at, ["lasttoken"]),
    "decoder-several": lambda at: padded_before(at, ["cls", "weightedmean"]),
    "clip": of_clip,
}


@pytest.fixture()
def library():
    """The real library's model of a directory."""
    return pytest.importorskip("sentence_transformers").SentenceTransformer


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_agrees_with_the_library(name, library, tmp_path):
    folder = MODELS[name](tmp_path)
    model, real = qs.load(folder), library(str(folder), device="cpu")
    expected = real.encode(TEXTS, normalize_embeddings=True, convert_to_tensor=True)
    assert torch.allclose(model["text"].encode(TEXTS), expected, atol=1e-5)
    if "image" in model:
        images = [Image.fromarray(picture) for picture in pictures()]
        expected = real.encode(images, normalize_embeddings=True, convert_to_tensor=True)
        assert torch.allclose(model["image"].encode(images), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["document", "passage"])
@pytest.mark.filterwarnings("ignore")
def test_prompts_agree_with_the_library(name, library, tmp_path):
    folder = sentence(tmp_path, prompts={"query": "red ", name: "blue "})
    model, real = qs.load(folder), library(str(folder), device="cpu")
    for side, prompt in (("text", None), ("query", "query"), ("passage", name)):
        expected = real.encode(TEXTS, prompt_name=prompt, convert_to_tensor=True)
        assert torch.allclose(model[side].encode(TEXTS), expected, atol=1e-5)


def test_a_prompt_comes_before_every_text(tmp_path):
    model = qs.load(sentence(tmp_path, prompts={"query": "red ", "document": ""}))
    assert list(model) == ["text", "query", "passage"]
    expected = model["text"].encode(["red square"])
    assert torch.equal(model["query"].encode(["square"]), expected)
    assert torch.equal(model["passage"].encode(["red square"]), expected)
    assert (model["text"].encode(["square"]) - expected).abs().max() > 1e-3


def test_prompts_that_are_empty_make_no_encoders(tmp_path):
    model = qs.load(sentence(tmp_path, prompts={"query": "", "document": ""}))
    assert list(model) == ["text"]


def test_queries_and_passages_are_cut_apart(tmp_path):
    folder = sentence(tmp_path, prompts={"query": "red "})
    model = qs.load(folder, adapt={"query": "last:1"})
    gallery = qs.Gallery.build(model["passage"], TEXTS)
    session = qs.Session(model["query"], gallery, qs.REST(), guard=None)
    before = session.answer(TEXTS, adapt=False).top(4).scores
    session.answer(TEXTS)
    assert not torch.equal(session.answer(TEXTS, adapt=False).top(4).scores, before)
    whole = qs.load(folder)
    for name in whole:
        assert torch.allclose(model[name].encode(TEXTS), whole[name].encode(TEXTS), atol=1e-6)


def by_hand(mode: str, rows: torch.Tensor) -> torch.Tensor:
    """The pooled vector of one text without padding."""
    weights = torch.arange(1.0, len(rows) + 1)[:, None]
    return {
        "cls": rows[0],
        "lasttoken": rows[-1],
        "max": rows.max(dim=0).values,
        "mean": rows.mean(dim=0),
        "mean_sqrt_len_tokens": rows.sum(dim=0) / len(rows) ** 0.5,
        "weightedmean": (rows * weights).sum(dim=0) / weights.sum(),
    }[mode]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mask", [[1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
def test_padding_is_left_out(mode, mask):
    tokens = torch.randn(1, 5, 3, generator=torch.Generator().manual_seed(0))
    kept = tokens[0][torch.tensor(mask, dtype=torch.bool)]
    pooled = Pooling([mode])(tokens, torch.tensor([mask]))
    assert torch.allclose(pooled[0], by_hand(mode, kept), atol=1e-6)


def test_texts_are_cut_at_the_models_length(tmp_path):
    model = qs.load(sentence(tmp_path, max_seq_length=8))
    with pytest.warns(UserWarning, match="longer than the 8 this model takes"):
        assert model["text"].prepare(["abcdefghijkl"])["input_ids"].shape == (1, 8)


def test_weights_that_are_not_used_may_be_absent(tmp_path):
    folder = sentence(tmp_path, model="BertForMaskedLM")
    first, second = (qs.load(folder)["text"].fingerprint() for _ in range(2))
    assert first == second


@pytest.mark.slow
def test_a_name_on_the_hub(tmp_path):
    """From the local cache, as the Hub's own downloads lie there."""
    home = tmp_path / "hub" / "models--some--model"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("1" * 40)
    (home / "snapshots" / ("1" * 40)).mkdir(parents=True)
    with_dense(home / "snapshots" / ("1" * 40))
    code = "import queryshift as qs; print(qs.load('some/model')['text'].encode(['a b']).shape)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.stdout.strip() == "torch.Size([1, 6])", ran.stderr


def rewrite(file, change):
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("module", "kind", "complaint"),
    [
        (0, "sentence_transformers.models.WordEmbeddings", "Transformer or CLIPModel as the first"),
        (1, "sentence_transformers.models.LSTM", "has the module LSTM .* expected Pooling behind"),
        (2, "sentence_transformers.models.CNN", "Dense, LayerNorm, Dropout or Normalize"),
        (1, "custom_pooling.Mine", "custom code and never run"),
    ],
)
def test_other_modules_are_refused(module, kind, complaint, tmp_path):
    folder = sentence(tmp_path)
    rewrite(folder / "modules.json", lambda modules: modules[module].update(type=kind))
    with pytest.raises(BadFile, match=complaint):
        qs.load(folder)


def test_no_modules_at_all(tmp_path):
    (sentence(tmp_path) / "modules.json").write_text("[]")
    with pytest.raises(BadFile, match="lists no modules"):
        qs.load(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"activation_function": "mine.Evil"},
        {"module_input_name": "token_embeddings"},
        {"use_residual": True},
    ],
)
def test_a_dense_layer_that_is_not_known(change, tmp_path):
    folder = with_dense(tmp_path)
    rewrite(folder / "2_Dense" / "config.json", lambda config: config.update(change))
    with pytest.raises(BadFile, match="expected an activation of torch"):
        qs.load(folder)


def test_a_dense_layer_without_weights(tmp_path):
    folder = with_dense(tmp_path)
    (folder / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(BadFile, match=r"the weights of Dense .* could not be read: no model\.safe"):
        qs.load(folder)


def test_a_prompt_that_is_not_pooled(tmp_path):
    folder = sentence(tmp_path, {"include_prompt": False}, prompts={"query": "red "})
    with pytest.raises(BadFile, match="include_prompt is false"):
        qs.load(folder)


def test_a_pooling_that_is_not_known(tmp_path):
    with pytest.raises(qs.Error, match='no pooling mode "median"'):
        qs.load(sentence(tmp_path, {"pooling_mode": "median"}))


def test_nothing_was_published_for_it(tmp_path):
    with pytest.raises(BadInput, match="no published preprocessing"):
        qs.load(sentence(tmp_path), preprocessing="published")


def test_a_tower_that_is_not_there(tmp_path):
    folder = of_clip(tmp_path)
    shutil.rmtree(folder / "0_CLIPModel")
    with pytest.raises(BadFile, match=r"expected a directory with config\.json"):
        qs.load(folder)


def test_the_page_runs_with_a_tiny_model(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "models.md"
    section = page.read_text(encoding="utf-8").split("\n## sentence-transformers\n")[1]
    code = re.findall(r"```python\n(.*?)```", section, re.S)[0]
    code = code.replace("sentence-transformers/all-MiniLM-L6-v2", str(sentence(tmp_path)))
    names = {"passages": TEXTS, "queries": TEXTS[:2]}
    exec(compile(code, "page", "exec"), names)
    assert [row[0] for row in names["hits"].ids] == [0, 1]
