"""Tiny checkpoints in their authors' own formats, each with the module that wrote it."""

import reference_blip
import reference_cav_mae
import reference_sprc
import torch
from reference_bert import shaken

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "red",
    "dog",
    "runs",
    "on",
    "long",
    "grass",
]
BLIP_ROWS = len(WORDS) + 2  # with [DEC] and [ENC]
SIDES = {"blip": 32, "cav_mae": 32, "sprc": 28}
BANK = 32  # rows of a filter bank


def blip(folder, pretrained=True):
    """As BLIP's: the weights, twice, beside queues and the number of the epoch."""
    torch.manual_seed(0)
    text = (BLIP_ROWS, 40, 64, 2, 1)
    model = shaken(reference_blip.Reference(SIDES["blip"], (128, 2, 2), text, 24, pretrained))
    path = _with_words(folder) / "model_base.pth"
    torch.save({"model": model.state_dict(), "epoch": 5}, path)
    return model, path


def cav_mae(folder):
    """As CAV-MAE's: the state of a `DataParallel`, and nothing else."""
    torch.manual_seed(0)
    model = reference_cav_mae.Reference(128, 2, 2, 64, 1, 1, BANK, SIDES["cav_mae"])
    path = folder / "audio_model.25.pth"
    torch.save(torch.nn.DataParallel(shaken(model)).state_dict(), path)
    return model, path


def sprc(folder):
    """As SPRC's: under the name of its class, the image encoder in half precision."""
    torch.manual_seed(0)
    text = (len(WORDS) + 1, 40, 64, 3, 1)
    model = shaken(reference_sprc.Reference(SIDES["sprc"], (176, 200, 2, 2), text, 24))
    model.visual_encoder.half().float()  # what halves can hold
    weights = {
        name: value.half() if name.startswith("visual_encoder.") else value
        for name, value in model.state_dict().items()
    }
    path = _with_words(folder) / "sprc_cirr.pt"
    torch.save({"epoch": 12, "Blip2QformerCirAlignPrompt": weights}, path)
    return model, path


def damaged(path, folder, change, inside=None):
    """A copy of a checkpoint after `change` of its weights."""
    held = torch.load(path, weights_only=True)
    change(held if inside is None else held[inside])
    torch.save(held, folder / path.name)
    return folder / path.name


def _with_words(folder):
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return folder
