"""Tiny checkpoints, written once a session and only ever loaded offline."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before Hugging Face's packages read it

import pytest
from three_items import SENTENCES, pictures, sounds


@pytest.fixture(scope="session")
def items() -> dict[str, list]:
    """Three items of each modality."""
    return {"image": pictures(), "text": list(SENTENCES), "audio": sounds()}


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """The directory of a tiny checkpoint, by the class or the library it was saved from."""
    from sentence_checkpoints import CHECKPOINTS as SENTENCES
    from tiny_checkpoints import CHECKPOINTS

    writers = {**CHECKPOINTS, **SENTENCES}
    written = {}

    def folder(architecture: str):
        if architecture not in written:
            home = tmp_path_factory.mktemp(architecture)
            written[architecture] = writers[architecture](home)
        return written[architecture]

    return folder
