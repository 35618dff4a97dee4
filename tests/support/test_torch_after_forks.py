"""Torch in forked children, where the parent has several threads: it goes on, in one."""

import os
import subprocess
import sys
import textwrap

import pytest

FORKED = """
import logging, os, signal, sys, torch
import queryshift as qs
from queryshift import Gallery, Session, Vectors

logging.basicConfig(level=logging.INFO, stream=sys.stdout)
vectors = torch.randn(50_000, 64)
{before}
child = os.fork()
if child == 0:
    signal.alarm(20)
    print("threads", torch.get_num_threads(), flush=True)
    session = Session(Vectors(64), Gallery.from_vectors(None, vectors))
    print("found", session.answer(vectors[:2]).top(1).ids, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child hung"
print("parent", torch.get_num_threads())
"""
USED = "Session(Vectors(64), Gallery.from_vectors(None, vectors)).answer(vectors[:2]).top(1)"


def said(before):
    """What a process of two threads prints that does this and forks, and its child."""
    if not hasattr(os, "fork"):
        pytest.skip("processes cannot be forked here")
    ran = subprocess.run(
        [sys.executable, "-c", FORKED.format(before=textwrap.dedent(before))],
        env={**os.environ, "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.mark.parametrize("before", [USED, "gallery = Gallery.from_vectors(None, vectors)"])
def test_a_child_goes_on_with_what_its_parent_loaded_in_one_thread_and_says_so(before):
    told = "torch computes in 1 thread in this forked process: the other 1 stayed behind."
    assert said(before) == [
        f"INFO:queryshift:{told}",
        "threads 1",
        "found [[0], [1]]",
        "parent 2",
    ]


def test_a_child_that_loads_for_itself_has_all_threads():
    assert said("") == ["threads 2", "found [[0], [1]]", "parent 2"]
