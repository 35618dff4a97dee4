"""What FAISS indexes find for clean pictures, corrupted ones, and vectors moved by the check.

    python bench/recall.py

The table of docs/research/engines.md: 10,000 captions, 256 pictures, recall at 10.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import queryshift as qs
from queryshift.galleries import faiss
from queryshift.lab import tangram
from queryshift.lab.corruptions import corrupt, find

CAPTIONS, PICTURES, DEPTH = 10_000, 256, 10
SHIFTS = ("gaussian_noise", "motion_blur", "fog", "jpeg")
INDEXES = (("HNSW32", "ef=16"), ("IVF128,Flat", "nprobe=4"), ("IVF128,Flat", "nprobe=16"))


def main() -> None:
    model = qs.load("tangram")
    captions = [tangram.captions(scene)[0] for scene in tangram.scenes("train", CAPTIONS)]
    parts = (captions[at : at + 512] for at in range(0, CAPTIONS, 512))
    vectors = np.concatenate([model["text"].encode(part).numpy() for part in parts])
    pictures = [scene.image() for scene in tangram.scenes("dev", PICTURES)]
    clean = model["image"].encode(pictures)
    shifted = {name: corrupted(model["image"], pictures, name) for name in SHIFTS}
    with TemporaryDirectory() as folder:
        os.environ["QUERYSHIFT_HOME"] = folder
        for factory, option in INDEXES:
            address = f"faiss:{folder}/{factory}?{option}"
            if not Path(f"{folder}/{factory}").exists():
                faiss.write_index(Path(f"{folder}/{factory}"), range(CAPTIONS), vectors, factory)
            told = qs.check_recall(faiss.open(address), clean, depth=DEPTH)
            row = {"clean": told.ordinary.at_10, "moved": told.shifted.at_10}
            for name, queries in shifted.items():
                check = qs.check_recall(faiss.open(address), clean, shifted=queries, depth=DEPTH)
                row[name] = check.shifted.at_10
            print(factory, option, {name: round(recall, 3) for name, recall in row.items()})
        for option in ("nprobe=4", "nprobe=64"):
            noisy = [noise(picture, str(place)) for place, picture in enumerate(pictures)]
            told = qs.check_recall(
                faiss.open(f"faiss:{folder}/IVF128,Flat?{option}"),
                pictures,
                encoder=model["image"],
                shifted=noisy,
            )
            print("REST", option, round(told.shifted.at_10, 3), told.agreement)


def corrupted(encoder, pictures, name):
    return encoder.encode([noise(one, str(place), name) for place, one in enumerate(pictures)])


def noise(picture, place, name="gaussian_noise"):
    return corrupt(picture, find("image", name), 5, seed=0, item_id=place)


if __name__ == "__main__":
    main()
