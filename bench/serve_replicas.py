"""Stores and replicas: SQLite beside PostgreSQL, one process beside two and three.

    python bench/serve_replicas.py --store postgresql://USER@HOST/DATABASE [--seconds 5]

Throughput of 64 clients of 8 tenants, of frozen and of the default session, tenants routed to
replicas by their number; and the gain of one tenant whose queries go to any of three replicas,
beside the same stream at one of them. Tenants of earlier runs in the database are used again:
give it an empty one.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rows import Rows, parser
from serve_load import Measured, Wire, request, saturated
from serve_process import Server

from queryshift.lab import tangram
from queryshift.lab.corruptions import find
from queryshift.serving.answering.thumbnails import png

CANDIDATES, GATHER, CLIENTS, TENANTS = 2000, 16, 64, 8
METHODS = {"frozen": 'method = "frozen"\n', "default": ""}
COLUMNS = {"case": "", "frozen/s": ".0f", "default/s": ".0f", "of frozen": ".2f", "from": ""}
GAIN = {"case": "", "right": ".0f", "of one's gain": ".2f", "from": ""}


def toml(store: str | None) -> str:
    """Settings of a replica with a live collection for each method."""
    parts = [
        f'[collections.{name}]\n{method}mode = "live"\n'
        f"candidates = {CANDIDATES}\ngather = {GATHER}\n"
        for name, method in METHODS.items()
    ]
    return ("" if store is None else f'store = "{store}"\n') + "threads = 1\n" + "".join(parts)


def noisy(count: int) -> list[dict[str, str]]:
    """Queries of the embedded world with gaussian noise."""
    noise, rng = find("image", "gaussian_noise"), np.random.default_rng(0)
    scenes = tangram.scenes("test", CANDIDATES)[:count]
    return [{"image": png(Image.fromarray(noise(one.image(), 3, rng)))} for one in scenes]


async def _all(ports: Sequence[int], clients: Sequence[list[bytes]], seconds: float) -> float:
    """Answers a second over all replicas; a tenant's clients ask the same one."""
    shares: list[list[list[bytes]]] = [[] for _ in ports]
    for number, requests in enumerate(clients):
        shares[number % TENANTS % len(ports)].append(requests)
    loads = [saturated(port, share, seconds) for port, share in zip(ports, shares, strict=True)]
    found: list[Measured] = list(await asyncio.gather(*loads))
    return sum(one.rate for one in found)


def throughput(
    ports: Sequence[int], queries: Sequence[dict[str, str]], seconds: float, rounds: int
) -> dict[str, float]:
    """Medians of answers a second of each method, measured in turns."""
    rates: dict[str, list[float]] = {name: [] for name in METHODS}
    for _ in range(rounds):
        for name in METHODS:
            clients = [
                [
                    request(name, f"t{number % TENANTS}", one)
                    for one in queries[number::CLIENTS][:16]
                ]
                for number in range(CLIENTS)
            ]
            rates[name].append(asyncio.run(_all(ports, clients, seconds)))
    return {name: statistics.median(found) for name, found in rates.items()}


async def _stream(ports: Sequence[int], tenant: str, queries: Sequence[Any], name: str) -> int:
    """How many queries of a stream are answered right, each sent to any replica, one by one."""
    wires, draw, right = [Wire(port) for port in ports], random.Random(0), 0
    for number, query in enumerate(queries):
        _, body = await draw.choice(wires).ask(request(name, tenant, query))
        right += json.loads(body)["answers"][0]["hits"][0]["id"] == number
        await asyncio.sleep(0.05)
    for wire in wires:
        wire.close()
    return right


def main() -> None:
    asking = parser(__doc__, rounds=2)
    asking.add_argument("--store", required=True, help="an empty database: postgresql://…")
    asking.add_argument("--seconds", type=float, default=5, help="of each measurement")
    asking.add_argument("--stream", type=int, default=384, help="queries of the gain")
    asked = asking.parse_args()
    queries = noisy(max(asked.stream, 1024))
    rows = Rows(asked, "frozen of the same replicas, measured in turns", COLUMNS)

    def add(case: str, servers: Sequence[Server]) -> None:
        ports = [server.port for server in servers]
        found = throughput(ports, queries, asked.seconds, asked.rounds)
        lost = sum(server.metric("queryshift_lost_updates_total") for server in servers)
        drops = sum(server.metric("queryshift_drops_total") for server in servers)
        learnt = sum(server.metric("queryshift_updates_total") for server in servers)
        rows.add(
            {
                "case": case,
                "frozen/s": found["frozen"],
                "default/s": found["default"],
                "of frozen": found["default"] / found["frozen"],
                "from": f"{learnt:.0f} learnt, {drops:.0f} dropped, {lost:.0f} lost; "
                f"load {os.getloadavg()[0]:.0f}",
            }
        )

    with tempfile.TemporaryDirectory() as folder:
        with Server(Path(folder) / "sqlite", toml(None)) as server:
            add("SQLite, 1 process", [server])
        with ExitStack() as stack:
            replicas: list[Server] = []
            for number in range(1, 4):
                made = Server(Path(folder) / f"replica-{number}", toml(asked.store))
                replicas.append(stack.enter_context(made))
                add(f"PostgreSQL, {number}", replicas)
            gain(asked, replicas, queries[: asked.stream])


def gain(asked: Any, replicas: Sequence[Server], queries: Sequence[Any]) -> None:
    """Right answers of a stream at one replica, and at any of three."""
    ports = [server.port for server in replicas]
    rows = Rows(asked, "the same stream, frozen", GAIN)
    tenant = f"stream-{time.time():.0f}"
    frozen = asyncio.run(_stream(ports[:1], tenant, queries, "frozen"))
    one = asyncio.run(_stream(ports[:1], f"{tenant}-one", queries, "default"))
    any_of = asyncio.run(_stream(ports, f"{tenant}-any", queries, "default"))
    lost = sum(
        server.metric('queryshift_lost_updates_total{collection="default"}') for server in replicas
    )
    for case, right in (("frozen", frozen), ("one replica", one), ("any of three", any_of)):
        share = (right - frozen) / max(one - frozen, 1)
        told = f"of {len(queries)}; {lost:.0f} lost in all; load {os.getloadavg()[0]:.0f}"
        rows.add({"case": case, "right": right, "of one's gain": share, "from": told})


if __name__ == "__main__":
    main()
