"""Small datasets with the publishers' files, field names and irregularities."""

import gzip
import json
from pathlib import Path

import numpy as np
import soundfile
from PIL import Image

BLANK = "  "


def write_json(path: Path, value) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_picture(path: Path, shade: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4), (shade, 40, 200)).save(path)


def karpathy_record(name: str, split: str, captions: list[str], **more) -> dict:
    sentences = [
        {"tokens": text.split(), "raw": text, "imgid": 0, "sentid": place}
        for place, text in enumerate(captions)
    ]
    return {"filename": name, "split": split, "sentences": sentences, "imgid": 0, **more}


def coco(root: Path) -> Path:
    """Two test pictures, one of them with seven captions, and one of each other split."""
    pictures = [
        ("test", "val2014", "COCO_val2014_000000000001.jpg", 7),
        ("test", "val2014", "COCO_val2014_000000000002.jpg", 5),
        ("val", "val2014", "COCO_val2014_000000000003.jpg", 5),
        ("restval", "val2014", "COCO_val2014_000000000004.jpg", 5),
        ("train", "train2014", "COCO_train2014_000000000005.jpg", 6),
    ]
    images = []
    for number, (split, folder, name, captions) in enumerate(pictures):
        write_picture(root / folder / name, shade=number)
        texts = [f"Caption {place} of {number}." for place in range(captions)]
        images.append(karpathy_record(name, split, texts, filepath=folder, cocoid=number))
    write_json(root / "dataset_coco.json", {"images": images, "dataset": "coco"})
    return root


def flickr(root: Path, name: str, folder: str) -> Path:
    """Three test pictures with five captions; one of the second's is blank, all of the third's."""
    images = []
    for number in range(3):
        write_picture(root / folder / f"{number}00.jpg", shade=number)
        texts = [f"Caption {place} of {number}." for place in range(5)]
        texts[3] = BLANK if number == 1 else texts[3]
        texts = [BLANK] * 5 if number == 2 else texts
        images.append(karpathy_record(f"{number}00.jpg", "test", texts))
    write_json(root / f"dataset_{name}.json", {"images": images, "dataset": name})
    return root


def flickr8k(root: Path) -> Path:
    """Their own files: five captions a picture, a list of each split, a picture in none of them."""
    splits = {"test": "1_a.jpg 2_b.jpg", "dev": "3_c.jpg", "train": "4_d.jpg", "": "5_e.jpg"}
    texts, lines = root / "Flicker8k_text", []
    texts.mkdir(parents=True)
    for split, listed in splits.items():
        for name in listed.split():
            write_picture(root / "Flicker8k_Dataset" / name, shade=int(name[0]))
            lines += [f"{name}#{place}\tCaption {place} of {name[0]} ." for place in range(5)]
        if split:
            (texts / f"Flickr_8k.{split}Images.txt").write_text(listed.replace(" ", "\n") + "\n")
    lines += [f"6_f.jpg.1#{place}\tNobody has this picture ." for place in range(5)]
    (texts / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n")
    return root


def nocaps(root: Path) -> Path:
    """One in-domain picture, two near, one out; and a caption of a picture that is not listed."""
    domains = ["in-domain", "near-domain", "near-domain", "out-domain"]
    images, annotations = [], []
    for number, domain in enumerate(domains):
        name = f"0013ea208702090{number}.jpg"
        write_picture(root / "val" / name, shade=number)
        images.append({"id": number, "file_name": name, "domain": domain, "license": 0})
        for place in range(10):
            caption = f"Caption {place} of {number}."
            annotations.append({"id": len(annotations), "image_id": number, "caption": caption})
    annotations.append({"id": 99, "image_id": 77, "caption": "Of nothing."})
    write_json(
        root / "nocaps_val_4500_captions.json", {"images": images, "annotations": annotations}
    )
    return root


def clips(root: Path, list_name: str) -> Path:
    """Three clips, listed at places on another machine and as FLAC, which `data frames` makes not.

    The last has lost two of its frames.
    """
    listed = []
    for number in range(3):
        name = f"--clip{number}"
        for frame in range(8 if number == 2 else 10):
            write_picture(root / f"frame_{frame}" / f"{name}.jpg", shade=10 * frame)
        samples = np.full(1600, 0.1 * number, np.float32)
        (root / "audio").mkdir(exist_ok=True)
        soundfile.write(root / "audio" / f"{name}.wav", samples, 16_000)
        listed.append(
            {
                "video_id": name,
                "wav": f"/data/sls/audioset/dave_version/audio/{name}.flac",
                "video_path": "/data/sls/audioset/dave_version/image_mulframe/",
                "labels": "/m/09x0r,/m/05zppz",
            }
        )
    write_json(root / list_name, {"data": listed})
    return root


def fashion_iq(root: Path) -> Path:
    """Three categories; among the dresses a record without target and one with a foreign one."""
    for category in ("dress", "shirt", "toptee"):
        names = [f"B00{category[0].upper()}{number}" for number in range(4)]
        for number, name in enumerate(names):
            write_picture(root / "images" / f"{name}{'.jpg' if number else '.png'}", shade=number)
        pairs = [
            {"target": names[1], "candidate": names[0], "captions": ["is Solid black.", "no belt"]},
            {"target": names[3], "candidate": names[2], "captions": ["is longer", BLANK]},
        ]
        if category == "dress":
            pairs.append({"candidate": names[0], "captions": ["is red", "is blue"]})
            pairs.append({"target": "B0GONE", "candidate": names[0], "captions": ["a", "b"]})
        write_json(root / "image_splits" / f"split.{category}.val.json", names)
        write_json(root / "captions" / f"cap.{category}.val.json", pairs)
    return root


def cirr(root: Path) -> Path:
    """Seven photos a split: two validation pairs with soft targets, two test pairs with none."""
    for split, folder in (("val", "dev"), ("test1", "test1")):
        names = [f"{folder}-{number}-0-img0" for number in range(7)]
        for number, name in enumerate(names):
            write_picture(root / "img_raw" / folder / f"{name}.png", shade=number)
        places = {name: f"./{folder}/{name}.png" for name in names}
        write_json(root / "image_splits" / f"split.rc2.{split}.json", places)
        write_json(root / "captions" / f"cap.rc2.{split}.json", _pairs(split, names))
    return root


def _pairs(split: str, names: list[str]) -> list[dict]:
    first = {
        "pairid": 12060,
        "reference": names[0],
        "target_hard": names[1],
        "target_soft": {names[1]: 1.0, names[4]: 0.5, names[5]: -1.0},
        "caption": "brighter sunshine",
        "img_set": {"id": 36, "members": names[:6], "reference_rank": 2, "target_rank": 3},
    }
    second = {  # as published: the hard target is no soft one, the reference is
        "pairid": 12130,
        "reference": names[2],
        "target_hard": names[3],
        "target_soft": {names[6]: 1.0, names[2]: 1.0, names[0]: -1.0},
        "caption": "add a wooden log",
        "img_set": {"id": 79, "members": names[:6], "reference_rank": 5, "target_rank": 0},
    }
    if split == "val":
        return [first, second]
    hidden = ("target_hard", "target_soft")
    return [{k: v for k, v in pair.items() if k not in hidden} for pair in (first, second)]


def aws(root: Path) -> Path:
    """Three services, `alpha` for development; old models, a text twice, a text too short."""
    texts = {
        "alpha": ["<p>Lists every hosted zone of the account that asks for it.</p>", "Too short."],
        "beta": ["Starts the <b>scan</b> &amp; returns its number without waiting for its end."],
        "gamma": [
            "Lists every hosted zone of the account that asks for it.",
            "Deletes an image with all its tags from the registry for good.",
        ],
    }
    for service, documents in texts.items():
        operations = {
            f"{'Get' if at else 'List'}DBZone{at}": {"documentation": text}
            for at, text in enumerate(documents)
        }
        about = {"serviceFullName": f"Amazon {service.title()} Service"}
        model = {"metadata": about, "operations": operations}
        write_json(root / service / "2020-01-01" / "service-2.json", model)
        write_json(root / service / "2019-01-01" / "service-2.json", {"old": True})
    packed = root / "gamma" / "2020-01-01" / "service-2.json"
    packed.with_suffix(".json.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    (root / "endpoints").mkdir()
    return root


def msmarco(root: Path) -> Path:
    """Passages and judgements of one repository, queries of the other; one query is judged not."""
    passages = root / "embedding-leaderboard" / "datasets" / "msmarco"
    queries = root / "CharacterBERT-DR" / "data" / "dl2019"
    (passages / "qrels").mkdir(parents=True)
    queries.mkdir(parents=True)
    texts = ["A goldfish grows\u2028all its life.", "Wifi is faster.", "Pain in the side."]
    lines = [json.dumps({"_id": f"p{at}", "text": text}) for at, text in enumerate(texts)]
    (passages / "corpus.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (passages / "qrels" / "test.tsv").write_text("11\tp0\t3\n11\tp1\t1\n22\tp1\t2\n22\tp2\t2\n")
    for name in ("", *(f"typo{at}." for at in range(1, 11))):
        rows = [f"11\tdo goldfsh grow {name}", "22\twifj or bluetooth", "33\tnever judged"]
        (queries / f"queries.dl2019.{name}tsv").write_text("\n".join(rows) + "\n")
    return root


def pacs(root: Path) -> Path:
    """Two pictures of each domain and class, one of them for development."""
    for domain in ("photo", "art_painting", "cartoon", "sketch"):
        for kind in ("dog", "house"):
            write_picture(root / "PACS" / domain / kind / "1.jpg", shade=90)
            write_picture(root / "PACS" / domain / kind / "4.png")
            (root / "PACS" / domain / kind / "Thumbs.db").write_text("no picture")
    return root


def esc50(root: Path) -> Path:
    """A recording of each fold, of two classes in turn."""
    rows = ["filename,fold,target,category,esc10,src_file,take"]
    (root / "audio").mkdir(parents=True)
    for fold in range(1, 6):
        name = f"{fold}-100-A-{fold % 2}.wav"
        tone = np.sin(np.arange(16000, dtype=np.float32) / (fold + 3)) / 2
        soundfile.write(root / "audio" / name, tone, 16000)
        rows.append(f"{name},{fold},{fold % 2},{('dog', 'hand_saw')[fold % 2]},False,100,A")
    (root / "meta").mkdir()
    (root / "meta" / "esc50.csv").write_text("\n".join(rows) + "\n")
    return root
