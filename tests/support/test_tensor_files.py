"""Tensor files: what was written is what is read, or a sentence says why not."""

import os
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file, save_file

from miniature import same
from queryshift.errors import BadFile
from queryshift.support import atomic_files
from queryshift.support.tensor_files import FORMAT, read, tensor_text, text_tensor, write
from tampering import loads_otherwise

TENSORS = {
    "half": torch.linspace(-1, 1, 30).view(5, 6).bfloat16(),
    "marks": torch.tensor([True, False, True]),
    "none": torch.empty(0, 4),
    "one": torch.tensor(3),
    "values": torch.linspace(0, 1, 21, dtype=torch.float64),
}
ABOUT = {"names": ["a", "ü"], "size": 3, "nested": {"rate": 0.1}}


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "kept"
    write(place, "test", TENSORS, ABOUT)
    return place


def load(path):
    return read(path, "test", mapped=False)


class TestReading:
    @pytest.mark.parametrize("mapped", [True, False])
    @pytest.mark.parametrize("verify", [True, False])
    def test_what_was_written_is_read(self, path, mapped, verify):
        tensors, about = read(path, "test", mapped=mapped, verify=verify)
        assert tensors.keys() == TENSORS.keys()
        assert all(same(tensors[name], TENSORS[name]) for name in TENSORS)
        assert about == {"format": FORMAT, **ABOUT}

    def test_what_is_read_into_memory_outlives_the_file(self, path):
        tensors, _ = read(path, "test", mapped=False)
        path.write_bytes(b"")
        assert all(same(tensors[name], TENSORS[name]) for name in TENSORS)

    def test_changed_values_are_noticed_unless_nobody_looks(self, path):
        whole = bytearray(path.read_bytes())
        header = 8 + int.from_bytes(whole[:8], "little")
        whole[header + 3] ^= 1
        path.write_bytes(whole)
        with pytest.raises(BadFile, match="not what its checksum says"):
            read(path, "test")
        read(path, "test", verify=False)

    def test_a_file_whose_checksum_was_taken_away_is_refused(self, path):
        save_file(load_file(path), path, metadata={"queryshift": "test"})
        with pytest.raises(BadFile, match="not what its checksum says"):
            read(path, "test")

    def test_a_file_of_before_there_were_checksums_is_read(self, path):
        body = {"values": TENSORS["values"], "about": text_tensor('{"size": 3}')}
        save_file(body, path, metadata={"queryshift": "test"})
        tensors, about = read(path, "test")
        assert same(tensors, {"values": TENSORS["values"]})
        assert about == {"format": 1, "size": 3}

    def test_a_file_of_a_later_version_says_so(self, path):
        write(path, "test", TENSORS, {"format": FORMAT + 1})
        with pytest.raises(BadFile, match="has format 3, this queryshift reads up to 2: update"):
            read(path, "test")

    @pytest.mark.parametrize(
        "about", [b"[" * 100_000, b"{", b"\xff", b"[1]", b'{"format": 0}', b'{"format": "2"}']
    )
    def test_a_description_that_is_none_is_refused(self, path, about):
        body = {"about": torch.frombuffer(bytearray(about), dtype=torch.uint8)}
        save_file(body, path, metadata={"queryshift": "test"})
        with pytest.raises(BadFile, match="damaged or cut short"):
            read(path, "test")

    def test_a_description_of_another_type_is_refused(self, path):
        save_file({"about": torch.ones(3).bfloat16()}, path, metadata={"queryshift": "test"})
        with pytest.raises(BadFile, match="damaged or cut short"):
            read(path, "test")

    def test_every_cut_is_noticed(self, path):
        whole = path.read_bytes()
        for kept in range(0, len(whole), 7):
            path.write_bytes(whole[:kept])
            with pytest.raises(BadFile, match="damaged or cut short"):
                read(path, "test")

    def test_flipped_bits_never_give_other_content(self, path):
        assert loads_otherwise(path, 600, seed=0, load=load, same=same) == 0

    @pytest.mark.slow
    def test_ten_thousand_flipped_bits_never_give_other_content(self, path):
        assert loads_otherwise(path, 10_000, seed=1, load=load, same=same) == 0

    def test_every_bit_of_the_header_is_guarded(self, path):
        whole, kept = path.read_bytes(), load(path)
        header = 8 + int.from_bytes(whole[:8], "little")
        for bit in range(header * 8):
            wrong = bytearray(whole)
            wrong[bit // 8] ^= 1 << bit % 8
            path.write_bytes(wrong)
            try:
                assert same(load(path), kept), bit
            except BadFile:
                continue


FULL = """
import resource, sys, torch
from pathlib import Path
from queryshift.errors import BadFile
from queryshift.support.tensor_files import write
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write(sys.argv[1], "test", {"values": torch.ones(1_000_000)}, {})
except BadFile as error:
    print(error)
"""


class TestWriting:
    def test_a_disk_without_room_is_told_and_the_old_file_stays(self, path):
        before = path.read_bytes()
        run = [sys.executable, "-c", FULL, str(path)]
        ran = subprocess.run(run, capture_output=True, text=True)
        assert f'"{path}" could not be written' in ran.stdout, ran.stderr
        assert "make room on the disk" in ran.stdout
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]

    def test_a_folder_that_is_a_file_is_told(self, path):
        with pytest.raises(BadFile, match="could not be written"):
            write(path / "inside", "test", TENSORS, ABOUT)

    def test_others_may_read_it_as_any_new_file(self, path):
        plain = path.with_name("plain")
        plain.touch()
        assert path.stat().st_mode == plain.stat().st_mode

    def test_texts_survive(self):
        assert tensor_text(text_tensor("ü ")) == "ü "


KILLED = """
import os, signal, sys, torch
from pathlib import Path
from queryshift.support import tensor_files

def stopped(body, place, metadata):
    Path(place).write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

tensor_files.save_file = stopped
tensor_files.write(sys.argv[1], "test", {"values": torch.ones(3)}, {})
"""


class TestTemporaries:
    @pytest.fixture
    def left(self, path):
        """What a killed save leaves behind."""
        subprocess.run([sys.executable, "-c", KILLED, str(path)])
        (folder,) = set(path.parent.iterdir()) - {path}
        assert (folder / "whole").read_bytes() == b"half"
        return folder

    def test_what_a_killed_save_left_goes_at_the_next_save(self, path, left):
        write(path, "test", TENSORS, ABOUT)
        assert list(path.parent.iterdir()) == [path]

    def test_that_of_another_file_stays(self, path, left):
        write(path.with_name("other"), "test", TENSORS, ABOUT)
        write(path.with_name("kept.other"), "test", TENSORS, ABOUT)
        assert left.exists()

    def test_that_of_a_running_process_stays_for_an_hour(self, path, left):
        mine = left.rename(path.with_name(f".kept.{atomic_files._machine()}-{os.getpid()}-{0:012}"))
        write(path, "test", TENSORS, ABOUT)
        assert mine.exists()
        long_ago = time.time() - 2 * atomic_files.STALE_AFTER
        os.utime(mine / "whole", (long_ago, long_ago))
        write(path, "test", TENSORS, ABOUT)
        assert mine.exists()  # the folder is new
        os.utime(mine, (long_ago, long_ago))
        write(path, "test", TENSORS, ABOUT)
        assert not mine.exists()

    def test_that_of_another_machine_stays_for_an_hour(self, path, left):
        dead = left.name.rsplit("-", 2)[1]
        foreign = left.rename(path.with_name(f".kept.{0:08}-{dead}-{0:012}"))
        write(path, "test", TENSORS, ABOUT)
        assert foreign.exists()
