"""Pictures are read alike however they are given; what cannot be read is refused in a sentence."""

import os
import threading
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import queryshift as qs
from queryshift.errors import BadFile, BadInput, BadItem
from queryshift.media.images import images, read_image, rgb

UPRIGHT = np.zeros((6, 10, 3), np.uint8)
UPRIGHT[:, :5] = 255


def png(image, **options):
    buffer = BytesIO()
    image.save(buffer, "PNG", **options)
    return buffer.getvalue()


@pytest.fixture
def sideways():
    """The bytes of a picture that was taken with the camera turned."""
    turned = Image.fromarray(np.rot90(UPRIGHT).copy())
    exif = turned.getexif()
    exif[0x0112] = 6  # to be turned by 90 degrees to the right
    return png(turned, exif=exif)


@pytest.fixture
def forms(sideways, tmp_path):
    """One picture file in every form that is taken."""
    path = tmp_path / "picture.png"
    path.write_bytes(sideways)
    with path.open("rb") as file, Image.open(path) as image:
        yield [path, sideways, bytearray(sideways), BytesIO(sideways), file, image]


class TestOrientation:
    def test_is_obeyed_however_the_picture_is_given(self, forms):
        for item in forms:
            assert np.array_equal(np.asarray(rgb(item)), UPRIGHT), type(item)

    def test_gives_every_form_the_same_vector(self, forms):
        vectors = qs.load("tangram")["image"].encode(forms)
        assert (vectors @ vectors[0]).min() > 0.999999

    def test_is_not_obeyed_twice(self, sideways):
        once = rgb(Image.open(BytesIO(sideways)))
        assert np.array_equal(np.asarray(rgb(once)), UPRIGHT)

    def test_leaves_the_picture_that_was_given_as_it_is(self, sideways):
        given = Image.open(BytesIO(sideways))
        rgb(given)
        assert given.size == (6, 10)


class TestPaths:
    def test_are_not_texts(self, tmp_path):
        (tmp_path / "a.png").write_bytes(png(Image.new("RGB", (9, 9))))
        complaint = r"item 0, a str: expected an image .* pass pathlib\.Path\(\.\.\.\)"
        for text in (str(tmp_path / "a.png"), "no such file"):
            with pytest.raises(BadItem, match=complaint):
                qs.load("tangram")["image"].encode([text])

    def test_of_pipes_do_not_block(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.png")
        complaints = []

        def read():
            with pytest.raises(BadFile) as caught:
                read_image(tmp_path / "pipe.png")
            complaints.append(str(caught.value))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(10)
        assert complaints and "expected a regular file" in complaints[0]

    @pytest.mark.parametrize("name", ["/dev/zero", "/"])
    def test_of_devices_and_folders_are_refused(self, name):
        with pytest.raises(BadFile, match="expected a regular file"):
            read_image(Path(name))


class TestFileObjects:
    def test_are_put_back_so_that_they_can_be_read_again(self):
        file = BytesIO(b"head" + png(Image.new("RGB", (3, 2))))
        file.seek(4)
        assert [rgb(file).size for _ in range(2)] == [(3, 2), (3, 2)]
        assert file.tell() == 4

    def test_that_are_texts_or_pipes_are_refused(self, tmp_path):
        (tmp_path / "a.png").write_text("text")
        with (
            (tmp_path / "a.png").open() as text,
            pytest.raises(BadFile, match='open it with "rb"'),
        ):
            rgb(text)
        out, into = os.pipe()
        os.close(into)
        with os.fdopen(out, "rb") as pipe, pytest.raises(BadFile, match="give its bytes"):
            rgb(pipe)


class TestLimits:
    def test_a_bomb_is_not_decoded(self, monkeypatch):
        bomb = png(Image.new("1", (8000, 8000)))
        assert len(bomb) < 100_000
        monkeypatch.setattr(Image.Image, "load", lambda _: pytest.fail("decoded"))
        monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda _: pytest.fail("decoded"))
        for item in (bomb, BytesIO(bomb), Image.open(BytesIO(bomb))):
            with pytest.raises(BadItem, match=r"item 0, .*got 8000 x 8000 pixels; 64,000,000 or"):
                images([item])

    def test_what_pillow_refuses_itself_is_one_of_ours(self):
        header = bytearray(png(Image.new("1", (8, 8))))
        header[16:24] = (60_000).to_bytes(4, "big") * 2
        with pytest.raises(BadFile, match="cannot be read as an image"):
            read_image(bytes(header))

    def test_a_line_that_a_model_would_enlarge_to_gigabytes_is_refused(self):
        with pytest.raises(BadInput, match="100000 x 1 pixels; a side 512 times the other"):
            rgb(np.zeros((1, 100_000, 3), np.uint8))

    def test_on_bytes_are_checked_before_the_file_is_opened(self, limited, tmp_path):
        content = png(Image.new("RGB", (9, 9)))
        (tmp_path / "a.png").write_bytes(content)
        limited(file_bytes=len(content))
        for item in (content, BytesIO(content), tmp_path / "a.png"):
            with pytest.raises(BadFile, match=f"got {len(content)} bytes; {len(content)} or more"):
                rgb(item)
        limited(file_bytes=len(content) + 1)
        assert rgb(BytesIO(content)).size == (9, 9)


class Hostile:
    def __array__(self, *_, **__):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (0.5, "a float"),
        (7, "an int"),
        (None, "None"),
        ({"picture": 1}, "a dict"),
        ([[1, 2], [3]], "a list"),
        (np.array(3.0), "an ndarray"),
        (np.array(None), "an ndarray"),
        (np.full((4, 5, 3), np.nan), "an ndarray"),
        (np.array([["a", "b"]]), "an ndarray"),
        (np.zeros((3, 2), complex), "an ndarray"),
        (b"", "bytes"),
        (b"not a picture", "bytes"),
        (Hostile(), "a Hostile"),
        ("picture.png", "a str"),
    ],
)
def test_what_is_no_picture_is_named_by_index_and_type(item, kind):
    good = np.zeros((9, 9, 3), np.uint8)
    with pytest.raises(BadItem, match=f"^item 2, {kind}: ") as caught:
        qs.load("tangram")["image"].encode([good, good, item])
    assert caught.value.index == 2
    assert "\n" not in str(caught.value)


def test_a_picture_that_pillow_has_not_decoded_yet_may_be_damaged():
    whole = png(Image.effect_noise((50, 50), 90))
    with pytest.raises(BadItem, match=r"item 0, a PngImageFile: .* cannot be read as an image"):
        images([Image.open(BytesIO(whole[:999]))])
