"""PACS (Li et al., 2017): photographs, paintings, cartoons and sketches of seven kinds of things.

Images ask for sentences made from the names of the classes. A part is one domain, of which three
in ten images are for development.
"""

from __future__ import annotations

from pathlib import Path

from queryshift.media.lazy_items import ImageFile

from .dataset import Dataset, of_classes
from .reading.reader import developed, find_folder

CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
TEMPLATES = ("a {}", "a photo of a {}", "a picture of a {}", "there is a {}", "one {} is shown")
ENDINGS = (".jpg", ".png")
DEVELOPED = 0.3  # of the images


def read(name: str, root: Path, part: str, query: str) -> Dataset:
    """Read the images of a domain, and the same sentences for all domains."""
    domain, _, side = part.partition("-")
    home = find_folder(root, "PACS", "kfold", "") / domain
    items = [
        (f"{kind}/{path.stem}", ImageFile(path), kind)
        for kind in CLASSES
        for path in sorted((home / kind).glob("*"))
        if path.suffix.lower() in ENDINGS and developed(path.name, DEVELOPED) == (side == "dev")
    ]
    return of_classes(name, "image", items, CLASSES, TEMPLATES)
