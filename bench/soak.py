"""A server left running under mixed traffic: memory and latency, minute by minute.

    python bench/soak.py [--minutes 10] [--clients 8] [--tenants 60] [--rate 12] [--seconds 30]

More tenants than are in memory ask with images clean and noisy; some clients hang up, some send
what is no image, one snapshots and rolls back. Every request has an idempotency key, as the
client's have. `--rate` is requests a second of all clients together, 0 as many as are answered;
`--seconds` is how often a row is printed.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image
from rows import Rows, parser
from serve_load import Measured, Wire, request
from serve_process import Server

from queryshift.lab import tangram
from queryshift.lab.corruptions import find
from queryshift.serving.answering.thumbnails import png

COLUMNS = {
    "minutes": ".1f",
    "MB": ".0f",
    "answers": ",",
    "p50 ms": ".1f",
    "p99 ms": ".1f",
    "refused": ",",
    "updates": ",.0f",
    "drops": ",.0f",
    "evicted": ",.0f",
    "5xx": ".0f",
    "load": ".0f",
}
TOML = """threads = 1
[collections.rest]
mode = "live"
keep_queries = 20
gather = 8
[tenants]
loaded = 20
save_batches = 2
save_seconds = 2
history = 50
"""


def requests_of(tenants: int) -> list[bytes]:
    """Searches of all tenants, clean and noisy; one in fifty is no image."""
    noise, rng = find("image", "gaussian_noise"), np.random.default_rng(0)
    scenes = tangram.scenes("test", 256)
    images = [scene.image() for scene in scenes]
    noisy = [noise(image, 3, rng) for image in images]
    queries = [{"image": png(Image.fromarray(one))} for one in (*images, *noisy)]
    queries += [{"image": "bm8gcGljdHVyZQ=="}] * 10
    names = itertools.cycle(f"tenant-{number}" for number in range(tenants))
    return [request("rest", next(names), query) for query in queries * 4]


async def client(
    port: int, requests: Sequence[bytes], found: Measured, seed: int, every: float
) -> None:
    """Asks without end, a request every so many seconds; hangs up now and then."""
    draw, wire, due = random.Random(seed), Wire(port), time.perf_counter()
    while True:
        due = max(due + every, time.perf_counter())
        await asyncio.sleep(due - time.perf_counter())
        sent, started = keyed(draw.choice(requests), draw), time.perf_counter()
        if draw.random() < 0.01:
            asking = asyncio.create_task(wire.ask(sent))
            await asyncio.sleep(0.002)
            asking.cancel()
            wire.close()
            wire = Wire(port)
            continue
        status, _ = await wire.ask(sent)
        found.refused += status != 200
        if status == 200:
            found.seconds.append(time.perf_counter() - started)


def keyed(sent: bytes, draw: random.Random) -> bytes:
    """A request with an idempotency key of its own."""
    key = f"\r\nIdempotency-Key: {draw.getrandbits(128):032x}\r\n\r\n"
    return sent.replace(b"\r\n\r\n", key.encode(), 1)


async def operator(port: int, tenants: int) -> None:
    """Snapshots tenants and rolls them back."""
    wire = Wire(port)
    for number in itertools.count():
        await asyncio.sleep(1)
        for verb in ("snapshots", "rollback"):
            body = json.dumps({"name": "soak"})
            path = f"/v1/collections/rest/tenants/tenant-{number % tenants}/{verb}"
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            await wire.ask(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())


def row_of(server: Server, found: Measured, minutes: float) -> dict[str, float]:
    """What is told of the latest stretch of time."""
    count = server.metric
    return {
        "minutes": minutes,
        "MB": server.memory(),
        "answers": len(found.seconds),
        "p50 ms": found.percentile(0.5),
        "p99 ms": found.percentile(0.99),
        "refused": found.refused,
        "updates": count("queryshift_updates_total"),
        "drops": count("queryshift_drops_total"),
        "evicted": count("queryshift_tenant_evictions_total"),
        "5xx": sum(1 for line in server.log.read_text().splitlines() if '"status": 5' in line),
        "load": os.getloadavg()[0],
    }


async def soak(server: Server, rows: Rows, asked: Namespace) -> None:
    """Traffic for so long, a row every so many seconds."""
    found, requests = Measured(), requests_of(asked.tenants)
    minutes, seconds = asked.minutes, asked.seconds
    every = asked.clients / asked.rate if asked.rate else 0.0
    work = [client(server.port, requests, found, seed, every) for seed in range(asked.clients)]
    work.append(operator(server.port, asked.tenants))
    running = [asyncio.create_task(one) for one in work]
    started = time.monotonic()
    while (since := time.monotonic() - started) < 60 * minutes:
        await asyncio.sleep(min(seconds, 60 * minutes - since))
        for one in running:
            if one.done():
                one.result()  # a client that failed ends the soak
        told = await asyncio.to_thread(row_of, server, found, (time.monotonic() - started) / 60)
        rows.add(told)
        found.seconds, found.refused = [], 0
    for one in running:
        one.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def main() -> None:
    asking = parser(__doc__, rounds=1)
    asking.add_argument("--minutes", type=float, default=10)
    asking.add_argument("--clients", type=int, default=8)
    asking.add_argument("--tenants", type=int, default=60)
    asking.add_argument("--rate", type=float, default=12, help="requests a second; 0: no pause")
    asking.add_argument("--seconds", type=float, default=30, help="between rows")
    asked = asking.parse_args()
    rows = Rows(asked, "none: rows are compared with the first", COLUMNS)
    with tempfile.TemporaryDirectory() as folder, Server(Path(folder), TOML) as server:
        asyncio.run(soak(server, rows, asked))


if __name__ == "__main__":
    main()
