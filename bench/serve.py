"""The service as ratios: batched against one request one forward, adapting against frozen.

    python bench/serve.py [--seconds 6] [--rounds 2] [--stream 384] [--tenants 100] [--only NAME]

Starts its servers itself: one with a collection for each method over the embedded world, and the
same with batches of one. What is compared is measured in turns. `--seconds 20 --rounds 5
--stream 2048 --tenants 1000` is the long form: in a short one few updates fall into the time
that is measured, and REST looks better than it is.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from rows import Rows, parser
from serve_load import (
    Measured,
    PlainWire,
    Wire,
    alone,
    flooded,
    paced,
    plain_get,
    post,
    request,
    saturated,
)
from serve_process import Server

from queryshift.lab import tangram
from queryshift.lab.corruptions import find
from queryshift.serving.answering.thumbnails import png
from queryshift.serving.collection import Collection, open_collection
from queryshift.serving.service import with_sample
from queryshift.serving.settings import CollectionSettings

METHODS = {"frozen": "frozen", "rest": "rest", "correction": "frozen+hubs", "default": None}
CANDIDATES, GATHER, TENANTS = 2000, 16, 8
TURNS = 320  # of a single query at an idle server
CLEAN = 640  # queries after a shift
COLUMNS = {"case": "", "got": ".2f", "wanted": "", "met": "", "from": ""}
Line = tuple[str, float, str, float, str]  # name, got, "at least" or "at most", wanted, figures


def toml(batch: int = 16, loaded: int = 1000, gather: int = GATHER) -> str:
    """Settings of a server with a live collection for each method."""
    parts = [
        f'[collections.{name}]\nmode = "live"\n'
        + ("" if method is None else f'method = "{method}"\n')
        + f"candidates = {CANDIDATES}\ngather = {gather}\n"
        for name, method in METHODS.items()
    ]
    return f"threads = 1\n[queues]\nbatch = {batch}\n[tenants]\nloaded = {loaded}\n{''.join(parts)}"


class Bench:
    """Servers and queries of a run."""

    def __init__(self, asked: argparse.Namespace, folder: Path, servers: ExitStack) -> None:
        self.asked, self._folder, self._servers = asked, folder, servers
        self.server = self.started("batched", toml())
        noise, rng = find("image", "gaussian_noise"), np.random.default_rng(0)
        scenes = tangram.scenes("test", CANDIDATES)[: asked.stream]
        images = [Image.fromarray(noise(scene.image(), 3, rng)) for scene in scenes]
        self.images = images
        self.queries = [{"image": png(image)} for image in images]
        self.capacity = 0.0

    def started(self, name: str, settings: str) -> Server:
        """A server that runs until the bench ends."""
        return self._servers.enter_context(Server(self._folder / name, settings))

    def clients(self, collection: str, count: int) -> list[list[bytes]]:
        """Requests of so many clients of eight tenants."""
        return [
            [
                request(collection, f"tenant-{number % TENANTS}", query)
                for query in self.queries[number::count][:16]
            ]
            for number in range(count)
        ]

    def load(self, server: Server, collection: str, count: int) -> Measured:
        """A saturated server for some seconds, when what others left to learn is learnt."""
        while server.metric("queryshift_groups_waiting"):
            time.sleep(0.2)
        work = saturated(server.port, self.clients(collection, count), self.asked.seconds)
        return asyncio.run(work)

    def in_turns(self, *measures: Callable[[], Measured]) -> list[float]:
        """Medians of answers a second, each measured in turn."""
        rates: list[list[float]] = [[] for _ in measures]
        for _ in range(self.asked.rounds):
            for found, measure in zip(rates, measures, strict=True):
                found.append(measure().rate)
        return [statistics.median(one) for one in rates]

    def collection(self, name: str) -> Collection:
        """The same collection in this process."""
        settings = CollectionSettings(
            method=METHODS[name], mode="live", candidates=CANDIDATES, gather=GATHER
        )
        folder = self._folder / "batched" / "data" / "galleries" / name
        return with_sample(open_collection(name, settings, folder))


def batching(bench: Bench) -> Iterator[Line]:
    """Frozen: batches against one request one forward."""
    single = bench.started("single", toml(batch=1))
    for count in (16, 64):
        many, one = bench.in_turns(
            partial(bench.load, bench.server, "frozen", count),
            partial(bench.load, single, "frozen", count),
        )
        figures = f"{many:.0f}/s against {one:.0f}/s"
        yield f"frozen over one each, {count}", many / one, "at least", 2.5, figures


def saturation(bench: Bench) -> Iterator[Line]:
    """Throughput of methods against frozen's, with 64 clients."""
    drops = bench.server.metric("queryshift_drops_total")
    frozen, rest, corrected, default = bench.in_turns(
        *(partial(bench.load, bench.server, name, 64) for name in METHODS)
    )
    bench.capacity = frozen
    dropped = bench.server.metric("queryshift_drops_total") - drops
    figures = f"{rest:.0f}/s of {frozen:.0f}/s, {dropped:.0f} groups dropped"
    yield "REST of frozen, saturated", rest / frozen, "at least", 0.6, figures
    yield "default of frozen, saturated", default / frozen, "at least", 0.5, f"{default:.0f}/s"
    yield "correction of frozen", corrected / frozen, "at least", 0.9, f"{corrected:.0f}/s"


def tenth(bench: Bench) -> Iterator[Line]:
    """REST at a tenth of frozen's capacity: updates, recall, latency."""
    rate = (bench.capacity or bench.load(bench.server, "frozen", 64).rate) / 10
    told = {}
    for name in ("frozen", "rest"):
        requests = [request(name, "stream", query) for query in bench.queries]
        told[name] = asyncio.run(paced(bench.server.port, requests, rate))
    groups = len(bench.queries) // GATHER
    learnt = _learnt(bench.server, "rest", "stream", groups)
    yield "updates applied", learnt / groups, "at least", 0.9, f"{learnt} of {groups}"
    right = {name: _right([_first(answer) for answer in told[name][1]]) for name in told}
    library = _right(_library(bench))
    gained, expected = right["rest"] - right["frozen"], library - right["frozen"]
    figures = f"right: frozen {right['frozen']}, service {right['rest']}, library {library}"
    yield "gain of the library's", gained / max(expected, 1), "at least", 0.9, figures
    slow = {name: measured.percentile(0.99) for name, (measured, _) in told.items()}
    figures = f"{slow['rest']:.0f} ms against {slow['frozen']:.0f} ms at {rate:.0f}/s"
    yield "p99 of frozen's", slow["rest"] / slow["frozen"], "at most", 1.5, figures


def after_shift(bench: Bench) -> Iterator[Line]:
    """Default: clean queries, one per request, to a tenant that has learnt from noisy ones."""
    server, rate = bench.server, 50.0
    noisy = [request("default", "shifted", query) for query in bench.queries]
    asyncio.run(paced(server.port, noisy, rate))
    learnt = _learnt(server, "default", "shifted", len(noisy) // GATHER)
    scenes = tangram.scenes("test", CANDIDATES)[-CLEAN:]
    queries = [{"image": png(Image.fromarray(scene.image()))} for scene in scenes]
    right = {}
    for name in ("frozen", "default"):
        requests = [request(name, "shifted", query) for query in queries]
        found = [_first(answer) for answer in asyncio.run(paced(server.port, requests, rate))[1]]
        right[name] = sum(id == CANDIDATES - CLEAN + at for at, id in enumerate(found))
    lost = 100 * (right["frozen"] - right["default"]) / CLEAN
    figures = f"right of {CLEAN}: frozen {right['frozen']}, default {right['default']}"
    told = f"{figures}; {learnt} updates before"
    yield "points lost on clean queries after a shift", lost, "at most", 1.0, told


def idle(bench: Bench) -> Iterator[Line]:
    """One query at a time, in turns with the library's own call; and with a key, as clients do."""
    collection, server = bench.collection("default"), bench.server
    session, wire = collection.session(), PlainWire(server.port)
    plain = [request("default", "idle", query, adapt=False) for query in bench.queries]

    def library(turn: int) -> tuple[float, float]:
        started, before = time.perf_counter(), time.thread_time()
        session.answer(collection.items([bench.images[turn % len(plain)]]), False).top(10)
        return time.perf_counter() - started, time.thread_time() - before

    def service(turn: int, key: str = "") -> tuple[float, float]:
        sent = plain[turn % len(plain)].replace(b"\r\n", f"\r\n{key}".encode(), 1)
        before = server.cpu()
        seconds = wire.ask(sent)
        time.sleep(0.001)  # what it does behind its answer
        return seconds, server.cpu() - before

    def keyed(turn: int) -> tuple[float, float]:
        return service(turn, f"Idempotency-Key: {turn}\r\n")

    ways = {"library": library, "idle": service, "idle, with a key": keyed}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(TURNS):
        for name in (*ways, *ways)[turn % 3 : turn % 3 + 3]:
            found[name].append(ways[name](turn))
    wire.close()
    told = {name: 1000 * np.median(each[20:], axis=0) for name, each in found.items()}
    for name in ("idle", "idle, with a key"):
        (wall, cpu), (here, own) = told[name], told["library"]
        figures = f"p50 {wall:.1f} ms, library {here:.1f} ms; CPU {cpu:.1f} and {own:.1f} ms"
        yield f"ms over the library, {name}", float(wall - here), "at most", 2, figures


def fairness(bench: Bench) -> Iterator[Line]:
    """A quiet tenant beside all kinds of traffic of another one."""
    quiet = [request("default", "quiet", query) for query in bench.queries]
    port, seconds = bench.server.port, bench.asked.seconds
    for name, clients in _other_traffic(bench).items():
        idle_one = alone(port, quiet, seconds).percentile(0.5)
        with flooded(port, clients, seconds + 2):
            time.sleep(1)
            crowded = alone(port, quiet, seconds).percentile(0.5)
        figures = f"p50 {crowded:.0f} ms, idle {idle_one:.1f} ms"
        yield f"quiet beside {len(clients)} of {name}", crowded / idle_one, "at most", 3, figures


def _other_traffic(bench: Bench) -> dict[str, list[list[bytes]]]:
    """Clients by kind: queries one by one, sixteen at once, large images, reads."""
    home, queries = "/v1/collections/default", bench.queries
    noise = np.random.default_rng(0).integers(0, 256, (1180, 1180, 3), dtype=np.uint8)
    large = {"image": png(Image.fromarray(noise))}
    wish = {"queries": queries[:16], "corruption": "fog", "severity": 3}
    return {
        "queries": [[request("default", "loud", query) for query in queries[:8]]] * 64,
        "queries of 8 tenants": bench.clients("default", 64),
        "16 queries": [[post(f"{home}/search", {"tenant": "loud", "queries": queries[:16]})]] * 16,
        "large images": [[request("default", "loud", large)]] * 8,
        "corruptions": [[post(f"{home}/corrupt", wish)]] * 6,
        "samples": [[plain_get(f"{home}/samples?n=256")]] * 6,
        "reports": [[plain_get(f"{home}/tenants/quiet")]] * 8,
    }


def tenants(bench: Bench) -> Iterator[Line]:
    """Memory of many tenants that have learnt, and the first answer of one that was evicted."""
    count = bench.asked.tenants
    server = bench.started(
        "tenants", toml(loaded=count).replace(f"gather = {GATHER}", "gather = 2")
    )
    _teach(bench, server, ["warm"])
    before = server.memory()
    _teach(bench, server, [f"t{number}" for number in range(count - 1)])
    grown = (server.memory() - before) / (count - 1) * 1000
    figures = f"{grown:.0f} MB for 1,000, from {count - 1} tenants with REST"
    yield "MB for 1,000 tenants", grown, "at most", 400, figures
    few = bench.started("few", toml(loaded=2, gather=2))
    names = [f"t{number}" for number in range(12)]
    _teach(bench, few, names)
    asked = {name: request("rest", name, bench.queries[0], adapt=False) for name in names}
    first, again = asyncio.run(_first_and_second(few.port, [*asked.values()] * 2))
    figures = f"p50 {first:.1f} ms, then {again:.1f} ms"
    yield "ms more when evicted", first - again, "at most", 20, figures


async def _first_and_second(port: int, requests: Sequence[bytes]) -> tuple[float, float]:
    wire, found = Wire(port), ([], [])
    for sent in requests:
        for seconds in found:
            started = time.perf_counter()
            await wire.ask(sent)
            seconds.append(time.perf_counter() - started)
    wire.close()
    return 1000 * statistics.median(found[0]), 1000 * statistics.median(found[1])


def _teach(bench: Bench, server: Server, names: Sequence[str]) -> None:
    """Two queries of each tenant, learnt."""

    async def ask() -> None:
        wire = Wire(server.port)
        for name in names:
            for query in bench.queries[:2]:
                await wire.ask(request("rest", name, query))
            while server.metric("queryshift_groups_waiting") > 8:
                await asyncio.sleep(0.02)
        wire.close()

    asyncio.run(ask())
    _learnt(server, "rest", names[-1], 1)


def _learnt(server: Server, collection: str, tenant: str, groups: int) -> int:
    """Updates of a tenant, when it has as many as expected or no more come."""
    updates = -1
    for _ in range(20):
        told = server.get(f"/v1/collections/{collection}/tenants/{tenant}")
        if told["batches"] >= groups or (told["batches"] == updates and not told["pending"]):
            break
        updates = told["batches"]
        time.sleep(0.5)
    return int(told["batches"])


def _library(bench: Bench) -> list[Any]:
    """First ids of a session that is asked the same stream, query by query."""
    collection = bench.collection("rest")
    session = collection.session(gather=GATHER)
    return [session.answer([image]).top(1).ids[0][0] for image in bench.images]


def _first(answer: Any) -> Any:
    return None if answer is None else answer["answers"][0]["hits"][0]["id"]


def _right(ids: Sequence[Any]) -> int:
    return sum(id == number for number, id in enumerate(ids))


PARTS = {
    "batching": batching,
    "saturation": saturation,
    "tenth": tenth,
    "after shift": after_shift,
    "idle": idle,
    "fairness": fairness,
    "tenants": tenants,
}


def main() -> None:
    asking = parser(__doc__, rounds=2)
    asking.add_argument("--seconds", type=float, default=6, help="of each measurement")
    asking.add_argument("--stream", type=int, default=384, help="queries at a tenth of capacity")
    asking.add_argument("--tenants", type=int, default=100, help="in memory at once")
    asking.add_argument("--only", choices=PARTS, nargs="*", default=list(PARTS))
    asked = asking.parse_args()
    torch.set_num_threads(1)
    rows = Rows(asked, "the same server with Frozen(), measured in turns", COLUMNS)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        bench = Bench(asked, Path(folder), servers)
        for name in asked.only:
            for label, got, bound, wanted, figures in PARTS[name](bench):
                met = got >= wanted if bound == "at least" else got <= wanted
                rows.add(
                    {
                        "case": label,
                        "got": got,
                        "wanted": f"{bound} {wanted}",
                        "met": "met" if met else "not met",
                        "from": f"{figures}; load {os.getloadavg()[0]:.0f}",
                    }
                )


if __name__ == "__main__":
    main()
