"""Fashion-Gen (Rostamzadeh et al., 2018): product images, descriptions and 48 categories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from queryshift.errors import BadFile
from queryshift.media.item_reading import decoding
from queryshift.support.optional import need

from .dataset import Captioned, Dataset, captioned
from .reading.reader import find_file

FIELDS = ("input_image", "input_productID", "input_description", "input_category")


@dataclass(frozen=True)
class Row:
    """An image in a row of the publisher's HDF5 file."""

    path: Path
    row: int

    @property
    def files(self) -> tuple[Path, ...]:
        """The one file that all images are in."""
        return (self.path,)

    def open(self) -> Any:
        """A Pillow image in RGB."""
        from PIL import Image

        with _opened(self.path) as file, decoding(self.path, f"images: number {self.row}"):
            return Image.fromarray(file["input_image"][self.row])


def read(name: str, root: Path, part: str, query: str) -> Dataset:
    """Each row's image with its description; the label is its category.

    Rows of one product share their description, so all rows of the product count as right, as in
    the published evaluation of TCR.
    """
    path = find_file(root, f"fashiongen_256_256_{part}.h5")
    with _opened(path) as file:
        lacking = [name for name in FIELDS if name not in file]
        if lacking:
            raise BadFile(f'"{path}" has no "{lacking[0]}": expected the publisher\'s file.')
        products = file["input_productID"][:].reshape(-1).tolist()
        descriptions, categories = (_texts(file[name]) for name in FIELDS[2:])
    shown = [
        Captioned(str(row), Row(path, row), [description], category)
        for row, (description, category) in enumerate(zip(descriptions, categories, strict=True))
    ]
    whole = captioned(f"{name}-{part}", shown, query)
    counts = {**whole.counts, "categories": len(set(categories))}
    return replace(whole, matches=_by_product(whole, products), counts=counts)


def _by_product(dataset: Dataset, products: Sequence[Any]) -> list[list[int]]:
    """The candidates of each query's product; ids start with the row."""
    own: dict[Any, list[int]] = defaultdict(list)
    for place, name in enumerate(dataset.candidate_ids):
        own[products[_row(name)]].append(place)
    return [own[products[_row(name)]] for name in dataset.query_ids]


def _row(name: str) -> int:
    return int(name.partition("#")[0])


def _texts(column: Any) -> list[str]:
    """A column of one byte string a row, in the publisher's encoding."""
    return [bytes(text).decode("latin-1").strip() for text in column[:].reshape(-1)]


def _opened(path: Path) -> Any:
    h5py = need("h5py", "fashion", f'reading "{path}"')
    with decoding(path, "HDF5"):
        return h5py.File(path, "r")
