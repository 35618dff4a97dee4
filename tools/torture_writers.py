"""What `tools/torture.py` tortures: writers to kill, and looks at what they left."""

import os
import signal
import sys
import threading
import time
from collections import Counter
from functools import cache
from itertools import cycle
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from queryshift import REST, Encoder, Error, Gallery, Session
from queryshift.lab.evaluation.results import read_folder

CHECKS = {
    "threads": "8 threads x 8 sessions, bit for bit as alone",
    "forks": "answers and saves in 20 forked children while a thread adapts",
    "cut": "a gallery file cut after load(mapped=False)",
}
DIMENSION = 32


class Small(Encoder):
    """Vectors through two norm layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.LayerNorm(DIMENSION), nn.Linear(DIMENSION, DIMENSION))

    def prepare(self, items) -> Tensor:
        """The rows as one table."""
        return torch.stack(list(items))

    def forward(self, prepared: Tensor) -> Tensor:
        """Unit vectors."""
        return normalize(prepared + self.layers(prepared), dim=1)


@cache
def encoder() -> Small:
    """The one encoder."""
    return Small()


def drawn(count: int, seed: int) -> Tensor:
    """Rows of random numbers."""
    return torch.randn(count, DIMENSION, generator=torch.Generator().manual_seed(seed))


def gallery(seed: int, count: int = 2000) -> Gallery:
    """Candidates whose first id tells the seed they were drawn with."""
    return Gallery.from_vectors([f"seed {seed}", *range(1, count)], drawn(count, seed))


@cache
def candidates() -> Gallery:
    """Those of all sessions."""
    return gallery(0, 200)


def session(batches: int = 0) -> Session:
    """A session after so many batches."""
    made = Session(encoder(), candidates(), REST(), lr=0.01)
    for number in range(batches):
        made.answer(list(drawn(8, number)))
    return made


def learnt_alike(left: Session, right: Session) -> bool:
    """Whether two sessions have learnt the same, bit for bit."""
    return bool(torch.equal(left.state.adapted.values, right.state.adapted.values))


@cache
def contents(kind: str) -> list[Gallery] | list[Session]:
    """What is saved in turn: no two alike."""
    if kind == "gallery":
        return [gallery(number) for number in range(10)]
    return [session(number) for number in range(10)]


def save_for_ever(kind: str, path: Path) -> None:
    """Save one content after another, until a kill."""
    for content in cycle(contents(kind)):
        content.save(path)


def whole(kind: str, path: Path) -> bool:
    """Whether a file is one of the saves, bit for bit."""
    if kind == "session":
        found = Session.load(path, encoder(), candidates())
        batches = len(found.history)
        return batches == found.state.batches and learnt_alike(found, contents(kind)[batches])
    found = Gallery.load(path, mapped=False)
    number = int(found.ids[0].split()[1])
    return bool(torch.equal(found.vectors, contents(kind)[number].vectors))


def cells_missing(folder: Path, expected: int) -> int:
    """Cells that are not there, or there twice."""
    lines = sum(len(one.read_text().splitlines()) for one in folder.rglob("*.jsonl"))
    found = read_folder(folder)
    return abs(len(found.cells) - expected) + abs(lines - expected) + len(found.problems)


def candidates_missing(path: Path, expected: int) -> int:
    """Candidates that are not there, or there twice."""
    counts = Counter(Gallery.load(path).ids)
    return sum(counts[f"i{number}"] != 1 for number in range(expected))


def fill(place: Path) -> int:
    """Save until the disk is full; wrong is an error without a sentence, or an old file lost."""
    small, large = gallery(1, 100), gallery(2, 20_000)
    small.save(place / "gallery")
    learnt = session(2)
    learnt.save(place / "session")
    (place / "ballast").write_bytes(b"x" * (700 * 1024))
    wrong = 0
    for _ in range(20):
        try:
            large.save(place / "gallery")
            wrong += 1
        except Error as error:
            wrong += "could not be written" not in str(error)
    wrong += not torch.equal(Gallery.load(place / "gallery").vectors, small.vectors)
    kept = Session.load(place / "session", encoder(), candidates())
    return wrong + (kept.state.batches != learnt.state.batches)


def interrupted(count: int) -> tuple[int, int]:
    """Interrupt batches at random moments: those that were hit, and torn states."""
    one, hit, wrong = session(1), 0, 0
    queries = list(drawn(8, 9))
    started = time.perf_counter()
    one.fork().answer(queries)
    takes = time.perf_counter() - started
    for number in range(count):
        before, batches = one.state, len(one.history)
        signal.setitimer(signal.ITIMER_REAL, takes * (number % 100 + 1) / 100)
        try:
            one.answer(queries)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            hit += 1
            wrong += (one.state is before) != (len(one.history) == batches)
        signal.setitimer(signal.ITIMER_REAL, 0)
    again = session(1)
    while again.state.batches < one.state.batches:
        again.answer(queries)
    return hit, wrong + (not learnt_alike(one, again))


def flipped_otherwise(kind: str, path: Path, count: int) -> int:
    """Of so many files with one bit flipped, those that load with other content."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from miniature import same
    from tampering import loads_otherwise

    (gallery(3, 40) if kind == "gallery" else session(3)).save(path)

    def content(file: Path) -> tuple:
        if kind == "gallery":
            found = Gallery.load(file, mapped=False)
            return found.ids, found.vectors, found.fingerprint
        loaded = Session.load(file, encoder(), candidates())
        return loaded.state, loaded.history, loaded.settings, loaded.method

    return loads_otherwise(path, count, seed=count, load=content, same=same)


def threads(folder: Path) -> int:
    """Sessions in threads that end otherwise than alone."""
    alone = session(20).state.adapted.values
    found: list[Tensor] = []
    running = [
        threading.Thread(target=lambda: found.append(session(20).state.adapted.values))
        for _ in range(8)
    ]
    encoder(), candidates()
    for one in running:
        one.start()
    for one in running:
        one.join()
    return 8 - sum(torch.equal(values, alone) for values in found)


def forks(folder: Path) -> int:
    """Forked children that hang or fail while another thread adapts."""
    one, ended = session(1), threading.Event()

    def adapt() -> None:
        while not ended.is_set():
            one.answer(list(drawn(8, 5)))

    thread = threading.Thread(target=adapt)
    thread.start()
    failed = 0
    for number in range(20):
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            try:
                one.answer(list(drawn(8, 6)))
                one.save(folder / f"forked-{number}")
            except BaseException:
                os._exit(1)
            os._exit(0)
        failed += os.waitpid(child, 0)[1] != 0
    ended.set()
    thread.join()
    return failed


def cut(folder: Path) -> int:
    """A gallery that was read into memory outlives its file."""
    gallery(4).save(folder / "cut")
    found = Gallery.load(folder / "cut", mapped=False)
    os.truncate(folder / "cut", 100)
    same = torch.equal(found.vectors, gallery(4).vectors)
    try:
        Gallery.load(folder / "cut")
        return 2
    except Error:
        return int(not same)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "interrupts":
        signal.signal(signal.SIGALRM, _interrupt)
        print(*interrupted(int(sys.argv[2])))
    else:
        checks = {"threads": threads, "forks": forks, "cut": cut}
        sys.exit(checks[sys.argv[1]](Path(sys.argv[2])))
