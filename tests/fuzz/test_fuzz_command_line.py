"""Every command with any arguments: an exit code and a sentence, never a traceback."""

import json

import click
import numpy as np
import pytest
from click.testing import CliRunner
from fuzzing import fuzzed, note_refusal
from hypothesis import strategies as st

from queryshift.cli import COMMANDS, main

WORDS = st.one_of(
    st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=8),
    st.sampled_from(
        (
            "",
            "-1",
            "0",
            "3",
            "nan",
            "1e999",
            "9" * 30,
            "x" * 300,
            "..",
            "/",
            "/dev/null",
            "\udc80",
            "a=b",
            "=",
        )
    ),
    st.sampled_from(("text.csv", "rows.jsonl", "asked.npy", "photo.png", "empty", "folder")),
    st.sampled_from(("tangram", "rest", "tent:lr=x", "fog", "image", "tangram-o-image", "x:y")),
    st.sampled_from(("milvus://x", "faiss:empty", "qdrant://[", "postgresql://", "cuda:99")),
)
LAST = {  # ends what would run for long, after everything else was read
    "demo": ["--shift", "no such shift"],
    "figure": ["--benchmark", "no such benchmark"],
    "run": ["--shift", "no such shift", "--seeds", "1", "--jobs", "1"],
    "serve": ["no such file.toml"],
    "tune": ["--model", "no such model"],
}


def leaves(command: click.Command, way: tuple[str, ...] = ()) -> dict[tuple[str, ...], list[str]]:
    """Every command that does something, with its options."""
    if not isinstance(command, click.Group):
        options = [name for one in command.params for name in one.opts if name[0] == "-"]
        return {way: sorted({*options, "--help", "--nonsense"})}
    found = {}
    for name in command.list_commands(click.Context(command)):
        inner = command.get_command(click.Context(command), name)
        found |= leaves(inner, (*way, name))
    return found


EVERY = leaves(main)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small files of every kind, most of them not what a command wants."""
    made = tmp_path_factory.mktemp("files")
    (made / "folder").mkdir()
    (made / "empty").write_bytes(b"")
    (made / "text.csv").write_text("id,text\n1,a red square\n2,\n")
    (made / "rows.jsonl").write_text(json.dumps({"id": 1, "text": "a star"}) + "\n{]\n")
    (made / "photo.png").write_bytes(b"\x89PNG no picture")
    np.save(made / "asked.npy", np.ones((3, 4), dtype=np.float32))
    return made


@pytest.mark.parametrize("way", EVERY, ids=" ".join)
@fuzzed(share=0.25, data=st.data(), arguments=st.lists(WORDS, max_size=3))
def test_any_arguments(way, data, arguments, folder, monkeypatch_module):
    monkeypatch_module.chdir(folder)
    options = data.draw(
        st.lists(st.tuples(st.sampled_from(EVERY[way]), WORDS), max_size=3), label="options"
    )
    given = [part for option in options for part in option]
    ended = LAST.get(way[0], [])
    ran = CliRunner().invoke(main, [*way, *arguments, *given, *ended])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), repr(ran.exception)
    assert ran.exit_code in (0, 1, 2) and "Traceback" not in ran.output
    if ran.exit_code != 0:
        assert len(ran.output.split()) > 3
        note_refusal()


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_every_command_is_there():
    assert {way[0] for way in EVERY} == set(COMMANDS)
