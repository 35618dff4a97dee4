"""A COCO on disk whose photos are scenes of tangram, so that the bundled model can answer."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from queryshift.lab.tangram import captions, scenes


def write(root: Path, count: int) -> Path:
    """`count` test pictures of five captions each, in Karpathy's format."""
    images = []
    for number, scene in enumerate(scenes("test", count)):
        name = f"COCO_val2014_{number:012}.png"
        (root / "val2014").mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(scene.image())).save(root / "val2014" / name)
        texts = [{"raw": text, "tokens": text.split()} for text in captions(scene)]
        images.append(
            {"filename": name, "filepath": "val2014", "split": "test", "sentences": texts}
        )
    (root / "dataset_coco.json").write_text(json.dumps({"images": images, "dataset": "coco"}))
    return root
