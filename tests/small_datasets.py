"""The small datasets of the readers' tests, for tests in other folders."""

import importlib.util
from pathlib import Path

_PATH = Path(__file__).parent / "lab" / "datasets" / "small.py"
_SPEC = importlib.util.spec_from_file_location("small", _PATH)
small = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(small)


def _clips(root: Path, listed: str) -> Path:
    """Clips of ten frames: tangram's model takes no fewer."""
    small.clips(root, listed)
    for frame in (8, 9):
        small.write_picture(root / f"frame_{frame}" / "--clip2.jpg")
    return root


def _fashion_gen(root: Path) -> Path:
    """The publisher's fields: pictures in one array, texts in columns of latin-1 bytes."""
    import h5py
    import numpy as np

    texts = [b"Red coat.", "Décolleté top.".encode("latin-1"), b"A blue top with a collar."]
    with h5py.File(root / "fashiongen_256_256_validation.h5", "w") as file:
        shades = np.array([40, 120, 200], np.uint8)[:, None, None, None]
        file["input_image"] = np.broadcast_to(shades, (3, 256, 256, 3))
        file["input_productID"] = np.array([86605, 86606, 86607])[:, None]
        file["input_description"] = np.array(texts)[:, None]
        file["input_category"] = np.array([b"JACKETS & COATS", b"TOPS", b"TOPS"])[:, None]
    return root


WRITERS = {
    "aws": small.aws,
    "msmarco": small.msmarco,
    "pacs": small.pacs,
    "esc50": small.esc50,
    "coco": small.coco,
    "flickr30k": lambda root: small.flickr(root, "flickr30k", "flickr30k-images"),
    "flickr8k": small.flickr8k,
    "rsicd": lambda root: small.flickr(root, "rsicd", "RSICD_images"),
    "rsitmd": lambda root: small.flickr(root, "RSITMD", "images"),
    "nocaps": small.nocaps,
    "audioset": lambda root: _clips(root, "audioset_eval_5_per_class_for_retrieval_cleaned.json"),
    "vggsound": lambda root: _clips(root, "vgg_test_5_per_class_for_retrieval_cleaned.json"),
    "fashion-iq": small.fashion_iq,
    "cirr": small.cirr,
    "fashion-gen": _fashion_gen,
}
"""Name of a dataset to a function that writes a small one below a folder."""
