"""The dual encoder of sounds: what it hears, that it learns, and that it comes back from disk."""

import re

import numpy as np
import pytest
import torch
from training.sounds import encoders, train

from queryshift import Gallery, Session
from queryshift.lab.datasets import DATASETS
from queryshift.media.waveform import Waveform
from small_datasets import small


def test_sounds_of_any_length_and_rate_have_one_shape():
    encoder = encoders.Sounds(encoders.SoundTower().eval())
    tones = [Waveform(np.sin(np.arange(n) / 9).astype(np.float32), n) for n in (8000, 44100)]
    held = encoder.prepare([*tones, np.zeros(200_000, np.float32)])
    assert held.shape == (3, encoders.FRAMES, encoders.BINS)
    vectors = encoder.encode(tones)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(2), atol=1e-5)
    assert sorted({name.split(".")[1] for name in encoder.norm_params()}) == ["layers", "norm"]


def test_training_draws_sounds_to_the_sentences_of_their_class(tmp_path, capsys):
    torch.manual_seed(0)
    held, labels = train.tensors(DATASETS["esc50"](small.esc50(tmp_path), part="train"))
    assert held.shape == (4, 124, 64) and labels.tolist() == [1, 0, 1, 0]
    texts = torch.nn.functional.normalize(torch.randn(2, 3, encoders.DIMENSION), dim=2)
    kept = tmp_path / "epochs.pt"
    train.train(encoders.SoundTower(), held, labels, texts, epochs=20, kept=kept)
    losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", capsys.readouterr().out)]
    assert len(losses) == 20 and sum(losses[-5:]) < sum(losses[:5]) / 2


def test_stopped_training_goes_on_as_if_it_had_not_stopped(tmp_path, monkeypatch):
    torch.manual_seed(0)
    begun = encoders.SoundTower().state_dict()
    held, labels = torch.randn(4, 124, 64), torch.tensor([0, 1, 0, 1])
    texts = torch.nn.functional.normalize(torch.randn(2, 3, encoders.DIMENSION), dim=2)

    def trained(kept):
        tower = encoders.SoundTower()
        tower.load_state_dict(begun)
        torch.manual_seed(1)
        train.train(tower, held, labels, texts, epochs=3, kept=kept)
        return tower.state_dict()

    whole, saved = trained(tmp_path / "whole.pt"), torch.save

    def save(state, path):
        saved(state, path)
        if state["epochs"] == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as stopping, pytest.raises(KeyboardInterrupt):
        stopping.setattr(torch, "save", save)
        trained(tmp_path / "stopped.pt")
    found = trained(tmp_path / "stopped.pt")
    assert all(torch.equal(found[name], value) for name, value in whole.items())


def test_mixed_sounds_have_mixed_labels():
    torch.manual_seed(0)
    held, labels = train.mixed(torch.randn(8, 124, 64), torch.eye(8))
    assert torch.allclose(labels.sum(dim=1), torch.ones(8)) and (labels.amax(dim=1) >= 0.5).all()
    assert held.isfinite().all()


def test_weights_come_back_as_a_model(tmp_path, monkeypatch):
    from safetensors.torch import save_file

    tower = encoders.SoundTower()
    save_file(tower.state_dict(), tmp_path / "train-dev.safetensors")
    monkeypatch.setenv(encoders.FOLDER, str(tmp_path))
    monkeypatch.setattr(encoders, "sentences", lambda: "text")
    model = encoders.make_dev()
    sound = np.sin(np.arange(16000, dtype=np.float32))
    vector = model["audio"].encode([sound])
    assert torch.allclose(vector, tower.eval()(model["audio"].prepare([sound])), atol=1e-6)
    gallery = Gallery.from_vectors(["a", "b"], torch.randn(2, encoders.DIMENSION))
    assert Session(model["audio"], gallery).answer([sound] * 4).top(1).ids
