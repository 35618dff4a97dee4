"""The small datasets of the readers' tests, for tests in other folders."""

import importlib.util
from pathlib import Path

_PATH = Path(__file__).parent / "datasets" / "small.py"
_SPEC = importlib.util.spec_from_file_location("small", _PATH)
small = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(small)


def _clips(root: Path, listed: str) -> Path:
    """Clips of ten frames: tangram's model takes no fewer."""
    small.clips(root, listed)
    for frame in (8, 9):
        small.write_picture(root / f"frame_{frame}" / "--clip2.jpg")
    return root


WRITERS = {
    "coco": small.coco,
    "flickr30k": lambda root: small.flickr(root, "flickr30k", "flickr30k-images"),
    "rsicd": lambda root: small.flickr(root, "rsicd", "RSICD_images"),
    "rsitmd": lambda root: small.flickr(root, "RSITMD", "images"),
    "nocaps": small.nocaps,
    "audioset": lambda root: _clips(root, "audioset_eval_5_per_class_for_retrieval_cleaned.json"),
    "vggsound": lambda root: _clips(root, "vgg_test_5_per_class_for_retrieval_cleaned.json"),
    "fashion-iq": small.fashion_iq,
    "cirr": small.cirr,
}
"""Name of a dataset to a function that writes a small one below a folder."""
