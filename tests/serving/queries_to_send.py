"""Queries of the embedded world, as a client sends them."""

import base64
import time
from functools import cache
from io import BytesIO

import numpy as np
from PIL import Image

from queryshift.lab import tangram

SEARCH = "/v1/collections/tangram/search"
TENANTS = "/v1/collections/tangram/tenants"


@cache
def png(number: int, noise: int = 0) -> bytes:
    """An image of the test world; `noise` makes it another one, harder to tell."""
    image = tangram.scenes("test", 64)[number].image().astype(float)
    drawn = np.random.default_rng(number).normal(0, noise, image.shape) if noise else 0
    file = BytesIO()
    Image.fromarray(np.clip(image + drawn, 0, 255).astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def query(number: int, noise: int = 0) -> dict[str, str]:
    return {"image": base64.b64encode(png(number, noise)).decode()}


def search(client, numbers, noise: int = 0, **more):
    """The parsed answer to a search for several images."""
    body = {"queries": [query(number, noise) for number in numbers], **more}
    answer = client.post(SEARCH, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def first_ids(told) -> list[int]:
    return [answer["hits"][0]["id"] for answer in told["answers"]]


def learnt(client, tenant: str, batches: int, seconds: float = 60) -> dict:
    """A tenant's report once it has so many batches."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        told = client.get(f"{TENANTS}/{tenant}").json()
        if told["batches"] >= batches and not told["pending"]:
            return told
        time.sleep(0.05)
    raise AssertionError(told)
