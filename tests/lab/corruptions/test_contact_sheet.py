import numpy as np
import pytest
from PIL import Image

from queryshift.errors import BadFile, BadInput
from queryshift.lab.corruptions import contact_sheet as sheets
from queryshift.lab.corruptions.files import Recipe
from queryshift.lab.corruptions.names import NAMES
from queryshift.media.images import read_image


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    across, down = np.meshgrid(np.arange(300), np.arange(240))
    pixels = np.stack([across * 255 // 300, down, (across + down) % 256], axis=2)
    path = tmp_path_factory.mktemp("sheet") / "photo.png"
    Image.fromarray(pixels.astype(np.uint8)).save(path)
    return path


@pytest.fixture(scope="module")
def drawn(photo):
    return np.asarray(sheets.contact_sheet(photo))


def tiles(drawn):
    """All tiles, found from the measures of the page."""
    for half in (0, 1):
        for row in range(8):
            for column in range(5):
                left = half * sheets._HALF + sheets.GAP + sheets.LABEL + column * sheets._STEP
                top = sheets._TOP + row * sheets._STEP
                yield drawn[top : top + sheets.TILE, left : left + sheets.TILE]


def test_all_sixteen_at_five_severities_are_there_and_differ(drawn):
    seen = {tile.tobytes() for tile in tiles(drawn)}
    assert len(seen) == 80
    assert all(tile.shape == (224, 224, 3) for tile in tiles(drawn))
    names = [name for half in (sheets.LEFT, sheets.RIGHT) for _, name in sheets._names(half)]
    assert sorted(names) == sorted(name for family in NAMES["image"].values() for name in family)


def test_a_tile_is_the_corrupted_photo(photo, drawn):
    left, top = sheets.GAP + sheets.LABEL, sheets.GAP
    clean = Image.fromarray(drawn[top : top + 224, left : left + 224])
    expected = Recipe("image", "gaussian_noise", 5).apply(clean, "photo.png", common=True)
    assert np.array_equal(list(tiles(drawn))[4], np.asarray(expected))


def test_labels_are_written_beside_every_row(drawn):
    for half in (0, 1):
        for row in range(8):
            left, top = half * sheets._HALF + sheets.GAP, sheets._TOP + row * sheets._STEP
            label = drawn[top : top + sheets.TILE, left : left + sheets.LABEL]
            assert (label < 128).any(axis=2).sum() > 50
            assert (label[:, -4:-1] == 255).all()  # and end before the pictures' borders


def test_every_preset_fits_its_tiles(photo, tmp_path):
    size = sheets.write_sheet(photo, tmp_path / "a.jpg", preset="mm_robustness")
    assert read_image(tmp_path / "a.jpg").size == size


def test_a_sheet_is_a_picture_file_of_its_own(photo, tmp_path):
    with pytest.raises(BadInput, match=r"named \.jpg or \.png"):
        sheets.write_sheet(photo, tmp_path / "sheet.gif")
    with pytest.raises(BadInput, match="overwrite the photo"):
        sheets.write_sheet(photo, photo)
    (tmp_path / "bad.jpg").write_bytes(b"no photo")
    with pytest.raises(BadFile, match=r"bad\.jpg"):
        sheets.write_sheet(tmp_path / "bad.jpg", tmp_path / "sheet.png")
    assert not (tmp_path / "sheet.png").exists()
