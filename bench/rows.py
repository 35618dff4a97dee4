"""What every benchmark prints: when and where it ran, its floor, and rows that can be kept."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FIRST, OTHERS = 28, 14  # widths of columns


def parser(about: str | None, rounds: int) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    found = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--rounds", type=int, default=rounds, help="how often each is measured")
    found.add_argument("--json", type=Path, help="file that every row is added to, one a line")
    return found


def machine(device: str) -> dict[str, str]:
    """When, on what and with what torch (where there is one) this runs."""
    found = {
        "bench": Path(sys.argv[0]).stem,
        "date": datetime.now(UTC).isoformat(" ", "minutes"),
        "on": platform.machine(),
    }
    if find_spec("torch") is None:
        return found
    import torch

    if device == "cuda":
        found["on"] = torch.cuda.get_device_name()
    return {**found, "torch": torch.__version__}


class Rows:
    """A table that grows row by row: names of columns, each with the format of its values."""

    def __init__(self, asked: argparse.Namespace, floor: str, columns: Mapping[str, str]) -> None:
        self.columns, self.file = columns, asked.json
        options = {name: value for name, value in vars(asked).items() if name != "json"}
        self.about = {**machine(options.get("device", "cpu")), **options}
        print(", ".join(f"{name} {value}" for name, value in self.about.items()))
        print(f"floor: {floor}")
        _print(columns)

    def add(self, row: Mapping[str, Any]) -> None:
        """One row; what is None or left out prints as a dash."""
        _print([_cell(row.get(name), style) for name, style in self.columns.items()])
        if self.file is not None:
            with self.file.open("a") as file:
                file.write(json.dumps({**self.about, **row}) + "\n")


def _cell(value: Any, style: str) -> str:
    return "-" if value is None else format(value, style)


def _print(cells: Any) -> None:
    first, *others = cells
    print(f"{first:<{FIRST}}" + "".join(f"{cell:>{OTHERS}}" for cell in others), flush=True)
