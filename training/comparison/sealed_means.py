"""Mean differences of the default to others on a sealed world, with paired intervals.

python -m training.comparison.sealed_means docs/research/policy-sealed-5.jsonl.gz
"""

from __future__ import annotations

import base64
import gzip
import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

OURS, DRAWS = "default", 2000
OTHERS = ("534ce61", "rest", "tcr", "shot", "shot+hubs", "frozen", "frozen+hubs")
Bits = np.ndarray  # (queries,) whether the first answer was right
Key = tuple[str, str, str, int, str]  # kind, phase, task, severity, shift


def read(path: Path) -> dict[Key, dict[str, Bits]]:
    """The right answers of each method on each stream."""
    found: dict[Key, dict[str, Bits]] = defaultdict(dict)
    for line in map(json.loads, gzip.decompress(path.read_bytes()).splitlines()):
        bits = np.unpackbits(np.frombuffer(base64.b64decode(line["hits"]), np.uint8))
        key = (line["kind"], line["phase"], line["task"], line["severity"], line["shift"])
        found[key][line["method"]] = bits[: line["queries"]].astype(int)
    return found


def difference(rows: list[list[Bits]], rng: np.random.Generator) -> tuple[float, float, float]:
    """Mean over rows of the mean over a row's streams, with a 95 % interval; in points."""
    seen = np.mean([np.mean([one.mean() for one in row]) for row in rows])
    drawn = np.zeros(DRAWS)
    for row in rows:
        for one in row:
            values, counts = np.unique(one, return_counts=True)
            picked = rng.multinomial(len(one), counts / len(one), size=DRAWS)
            drawn += picked @ values / len(one) / len(row) / len(rows)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return 100 * float(seen), 100 * float(low), 100 * float(high)


def main() -> None:
    streams = read(Path(sys.argv[1]))
    rng = np.random.default_rng(0)
    for kind, phase in dict.fromkeys(key[:2] for key in streams):
        for other in OTHERS:
            rows: dict[tuple[str, int], list[Bits]] = defaultdict(list)
            for key, methods in streams.items():
                if key[:2] == (kind, phase) and {OURS, other} <= methods.keys():
                    rows[key[2:4]].append(methods[OURS] - methods[other])
            if rows:
                seen, low, high = difference(list(rows.values()), rng)
                count = sum(map(len, rows.values()))
                name = f"{kind} {phase}".strip()
                told = f"{seen:+.1f} ({low:+.1f} to {high:+.1f})"
                print(f"{name:16} {OURS} - {other:12} {told:26} {count:3} streams")


if __name__ == "__main__":
    main()
