"""Shards that wait in files: a damaged or foreign one is found out before a gallery is made."""

import pytest
import torch

from queryshift.errors import BadFile, BadInput
from queryshift.galleries.engine_writer import Layout
from queryshift.indexing.journal import Receipt
from queryshift.indexing.targets import ASSEMBLERS, FileTarget
from queryshift.support.tensor_files import read

VECTORS = torch.nn.functional.normalize(torch.arange(1.0, 41.0).view(5, 2, 4).sin(), dim=2)[:, :1]


@pytest.fixture
def target(tmp_path):
    made = FileTarget(str(tmp_path / "gallery.safetensors"), tmp_path, ASSEMBLERS[".safetensors"])
    made.begin(Layout(4, False, "exact"), [])
    made.write(0, ["a", "b"], VECTORS[:2])
    made.write(1, ["c", "d", "e"], VECTORS[2:])
    return made


def receipts(*rows: int) -> list[Receipt]:
    return [Receipt(shard, count, ()) for shard, count in enumerate(rows)]


def test_shards_are_put_together_in_their_order(target):
    target.finish(receipts(2, 3, 0)[::-1])
    tensors, about = read(target.path, "gallery")
    assert about["ids"] == ["a", "b", "c", "d", "e"]
    assert torch.allclose(tensors["vectors"], VECTORS)


def test_a_flipped_bit_in_a_shard_is_found(target, tmp_path):
    shard = sorted(tmp_path.glob("*1.safetensors"))[0]
    content = bytearray(shard.read_bytes())
    content[content.index(VECTORS[2:].numpy().tobytes())] ^= 1  # the last bit of a number
    shard.write_bytes(content)
    with pytest.raises(BadFile):
        target.finish(receipts(2, 3))
    assert not target.path.exists()


def test_a_shard_of_another_build_is_found(target):
    with pytest.raises(BadFile, match="has 3 candidates, the journal says 2"):
        target.finish(receipts(2, 2))


def test_nothing_readable_is_no_gallery(target):
    with pytest.raises(BadInput, match="no item could be read"):
        target.finish(receipts(0, 0))


def test_shards_whose_file_is_gone_are_lost_and_empty_ones_have_none(target, tmp_path):
    (tmp_path / "00000001.safetensors").unlink()
    assert target.begin(target.layout, receipts(2, 3, 0)) == {1}
