"""Datasets: each gives queries, candidates, and who matches whom.

To add one: write its file with a `Reader`, and add a line to `DATASETS`.
"""

from ..tables import Table
from .base import Dataset
from .readable import usable
from .reader import Reader

__all__ = ["DATASETS", "Dataset", "Reader", "usable"]

DATASETS: Table[Reader] = Table(
    "dataset",
    {
        "coco": f"{__name__}.coco:READER",
        "flickr30k": f"{__name__}.flickr:FLICKR30K",
        "flickr8k": f"{__name__}.flickr:FLICKR8K",
        "nocaps": f"{__name__}.nocaps:READER",
        "fashion-gen": f"{__name__}.fashion_gen:READER",
        "rsicd": f"{__name__}.rsicd:RSICD",
        "rsitmd": f"{__name__}.rsicd:RSITMD",
        "audioset": f"{__name__}.audio_video:AUDIOSET",
        "vggsound": f"{__name__}.audio_video:VGGSOUND",
        "fashion-iq": f"{__name__}.fashion_iq:READER",
        "cirr": f"{__name__}.cirr:READER",
    },
)
"""Name to the `Reader` of a dataset on disk: `DATASETS["coco"](root, query="text")`."""
