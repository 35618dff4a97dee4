import json
import re

import pytest

from queryshift.errors import BadFile, BadInput
from queryshift.lab.corruptions.files.input_files import read_captions
from queryshift.lab.corruptions.files.layouts import (
    LAYOUTS,
    PUBLISHED_NAMES,
    find_layout,
    output_name,
)
from queryshift.lab.corruptions.names import NAMES


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"a dog\na cat\n", ("a dog", "a cat")),
        (b"a dog\r\na cat", ("a dog", "a cat")),
        (b"\xef\xbb\xbfa dog\n\n\na cat\n\n", ("a dog", "", "", "a cat", "")),
        ("ein Bär\n一只猫\n".encode(), ("ein Bär", "一只猫")),
        (b"\n", ("",)),
        (b"", ()),
    ],
)
def test_captions_are_lines_and_empty_ones_count(tmp_path, content, texts):
    (tmp_path / "a.txt").write_bytes(content)
    captions = read_captions(tmp_path / "a.txt")
    assert captions.texts == texts
    assert captions.encode(text.upper() for text in texts).count(b"\n") == len(texts)


def test_captions_in_records_are_replaced_in_place(tmp_path):
    records = [{"image": "1.jpg", "caption": ["a", "b"]}, {"caption": "c", "id": 7}]
    (tmp_path / "a.json").write_text(json.dumps(records))
    captions = read_captions(tmp_path / "a.json")
    assert captions.texts == ("a", "b", "c")
    assert json.loads(captions.encode("xyz")) == [
        {"image": "1.jpg", "caption": ["x", "y"]},
        {"caption": "z", "id": 7},
    ]
    assert captions.records == tuple(records)


@pytest.mark.parametrize("content", ["{", "[3]", '[{"text": "a"}]', '[{"caption": [1]}]', "\udcff"])
def test_other_files_are_named_and_refused(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    path = re.escape(str(tmp_path / "a.json"))
    with pytest.raises(BadFile, match=f'"{path}" cannot be read as a file of captions'):
        read_captions(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("layout", "modality", "corruption", "folder"),
    [
        ("plain", "image", "fog", ""),
        ("imagenet_c", "image", "elastic", "elastic_transform/4"),
        ("coco", "image", "jpeg", "COCO_IP_jpeg_compression_4"),
        ("flickr", "image", "fog", "Flickr30K_IP_fog_4"),
        ("coco", "text", "ocr", "annotation_OcrAug/6"),
        ("coco", "text", "character_replace", "annotation_RandomCharAug_substitute/6"),
        ("flickr", "text", "backtranslation", "annotation_back_trans/1"),
        ("flickr", "text", "formal", "annotation_formal/1"),
        ("read", "audio", "wind", "wind/severity_4"),
        ("read", "video", "jpeg", "jpeg_compression/severity_4"),
    ],
)
def test_folders_are_those_of_the_published_benchmarks(layout, modality, corruption, folder):
    assert find_layout(layout, modality).folder(modality, corruption, 4) == folder


def test_published_names_belong_to_corruptions_and_folders_never_meet():
    names = [name for families in NAMES.values() for group in families.values() for name in group]
    assert set(PUBLISHED_NAMES) <= set(names)
    for layout in set(LAYOUTS) - {"plain"}:
        for modality in LAYOUTS[layout].folders:
            known = [name for group in NAMES[modality].values() for name in group]
            folders = {LAYOUTS[layout].folder(modality, name, 5) for name in known}
            assert len(folders) == len(known)


def test_a_layout_without_the_modality_names_those_that_have_it():
    with pytest.raises(BadInput, match='"read" has no place for text; these do: plain, coco'):
        find_layout("read", "text")


@pytest.mark.parametrize(
    ("layout", "modality", "source", "name"),
    [
        ("plain", "image", "a.b/c.JPEG", "a.b/c.JPEG"),
        ("plain", "image", "c.bmp", "c.png"),
        ("coco", "image", "c.png", "c.jpg"),
        ("coco", "image", "c.JPEG", "c.jpg"),
        ("plain", "audio", "c.flac", "c.flac"),
        ("read", "audio", "c.flac", "c.wav"),
        ("plain", "audio", "c.mp3", "c.wav"),
        ("coco", "text", "coco_karpathy_test.json", "coco_karpathy_test.json"),
    ],
)
def test_formats_that_can_stay_do(layout, modality, source, name):
    assert output_name(LAYOUTS[layout], modality, source) == name
