"""Print which files of the package one batch passes through, and how often it changes files.

    python tools/trace_batch.py [SRC] [--calls]

SRC is the folder that holds `queryshift`, by default this repository's `src`. A default session on
tangram answers three batches of noisy images, and the third is traced. A "switch" is a call to a
function in another file than the call before. The first row is `answer(batch)`, the second
`answer(batch).top(10)`, each with the number of files outside the bundled model and its images
(`lab`, `models`, `media`). Then come the numbers of the policy's rules and constants, and the files
of the second row in the order of first use. --calls also lists which function calls which across
files, most frequent first.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

WORLDS = ("queryshift.lab.tangram", "queryshift.tangram")  # where it is now, and where it was
BATCH = 64
WARM_UP = 2  # batches
NOISE = 60  # of 255: enough to make the source model uncertain
MODEL = ("lab/", "models/", "media/")  # a model of yours has other files here


class Function(NamedTuple):
    """A function of the package: its file, as a path below the package, and its name there."""

    file: str
    name: str


@dataclass
class Trace:
    """The calls to functions below a folder, each with the nearest caller below it."""

    home: str
    calls: list[tuple[Function | None, Function]] = field(default_factory=list)

    def of(self, run: Callable[[], object]) -> Trace:
        """Run something and record its calls."""
        sys.setprofile(self._record)
        try:
            run()
        finally:
            sys.setprofile(None)
        return self

    @property
    def files(self) -> Counter[str]:
        """How many calls each file got, in the order of first use."""
        return Counter(function.file for _, function in self.calls)

    @property
    def functions(self) -> set[Function]:
        """The functions that were called."""
        return {function for _, function in self.calls}

    @property
    def switches(self) -> Counter[str]:
        """How often each file was switched to: called when the call before was to another file."""
        called = [function.file for _, function in self.calls]
        return Counter(after for before, after in pairwise(called) if before != after)

    @property
    def crossings(self) -> Counter[tuple[Function | None, Function]]:
        """How often a function called one in another file."""
        return Counter(
            (caller, called)
            for caller, called in self.calls
            if caller is None or caller.file != called.file
        )

    def _record(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (called := self._function(frame)) is not None:
            self.calls.append((self._caller(frame), called))

    def _function(self, frame: FrameType) -> Function | None:
        file = frame.f_code.co_filename
        if not file.startswith(self.home):
            return None
        return Function(file.removeprefix(self.home), frame.f_code.co_qualname)

    def _caller(self, frame: FrameType) -> Function | None:
        above = frame.f_back
        while above is not None and self._function(above) is None:
            above = above.f_back
        return above and self._function(above)


def warm_session() -> tuple[Any, list[Any]]:
    """A session that has answered some batches, and the next one."""
    import numpy as np
    import torch

    import queryshift

    torch.set_num_threads(1)
    tangram = world()
    scenes = tangram.scenes("test", BATCH * (WARM_UP + 1))
    clean = np.stack([scene.image() for scene in scenes])
    noise = np.random.default_rng(0).normal(0, NOISE, clean.shape)
    images = list((clean + noise).clip(0, 255).astype(np.uint8))
    model = queryshift.load("tangram")
    texts = [tangram.captions(scene)[0] for scene in scenes]
    gallery = queryshift.Gallery.build(model["text"], texts)
    session = queryshift.Session(model["image"], gallery)
    for start in range(0, BATCH * WARM_UP, BATCH):
        session.answer(images[start : start + BATCH]).top(10)
    return session, images[-BATCH:]


def world() -> Any:
    """Tangram's scenes, from whichever place the package keeps them at."""
    for name in WORLDS:
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    raise SystemExit(f"queryshift has none of {', '.join(WORLDS)}: is SRC a folder with it?")


def policy() -> list[str]:
    """How many rules and constants there are, where the package counts them."""
    try:
        found = import_module("queryshift.sessions.policy")
    except ModuleNotFoundError:
        return []
    rules = re.findall(r"^\d+\. ", found.__doc__ or "", re.MULTILINE)
    return [f"policy: {len(rules)} rules, {len(found.CONSTANTS)} constants"]


def lines(trace: Trace, calls: bool) -> list[str]:
    """The files in the order of first use; then the calls across files, if asked for."""
    origins_of: dict[str, Counter[str]] = {name: Counter() for name in trace.files}
    for (caller, called), count in trace.crossings.items():
        origins_of[called.file][caller.file if caller else "the caller"] += count
    table = [f"{'file':<32}{'functions':>10}{'calls':>7}{'switches':>10}  called from"]
    for name, count in trace.files.items():
        own = sum(function.file == name for function in trace.functions)
        origins = ", ".join(f"{file} {times}" for file, times in origins_of[name].most_common())
        table.append(f"{name:<32}{own:>10}{count:>7}{trace.switches[name]:>10}  {origins}")
    if calls:
        table += ["", "calls across files"]
        table += [
            f"{count:>5}  {_named(caller)} -> {_named(called)}"
            for (caller, called), count in trace.crossings.most_common()
        ]
    return table


def _named(function: Function | None) -> str:
    return f"{function.file}:{function.name}" if function else "the caller"


def main(arguments: list[str] | None = None) -> int:
    """Trace one batch and print what it passed through."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("src", nargs="?", type=Path, default=Path(__file__).parents[1] / "src")
    parser.add_argument("--calls", action="store_true", help="list the calls across files too")
    options = parser.parse_args(arguments)
    source = options.src.resolve()
    sys.path.insert(0, str(source))
    session, batch = warm_session()
    home = f"{source / 'queryshift'}/"
    twin = session.fork()
    answer = Trace(home).of(lambda: session.answer(batch))
    top = Trace(home).of(lambda: twin.answer(batch).top(10))
    for name, trace in (("answer", answer), ("answer, top 10", top)):
        own = sum(not file.startswith(MODEL) for file in trace.files)
        figures = f"{len(trace.files)} files ({own} outside the model), "
        figures += f"{len(trace.functions)} functions"
        print(f"{name}: {figures}, {len(trace.calls)} calls, {trace.switches.total()} switches")
    print("\n".join((*policy(), "", *lines(top, options.calls))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
