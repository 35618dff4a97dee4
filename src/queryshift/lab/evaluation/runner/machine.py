"""Memory, device and versions of the machine that ran a cell."""

from __future__ import annotations

import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from queryshift import __version__

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class Memory:
    """The most memory that was in use since it was made: the GPU's, or the process's."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        elif _CLEAR.exists():
            with suppress(OSError):
                _CLEAR.write_text("5")  # Linux: the peak starts anew

    def peak_mb(self) -> float | None:
        """In megabytes; None where the system does not say."""
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device) / 2**20
        if not _STATUS.exists():
            return None
        lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 2**10


def best_device() -> str:
    """The GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def device_name(device: torch.device) -> str:
    """The name of the device."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({platform.machine()}, {torch.get_num_threads()} threads)"


def versions() -> dict[str, str]:
    """Versions of the packages that affect results."""
    packages = ("queryshift", "torch", "transformers", "numpy", "pillow", "opencv-python-headless")
    found = {"python": platform.python_version(), **{name: _version(name) for name in packages}}
    return {**found, "queryshift": found["queryshift"] + _commit(Path(__file__).parent)}


@cache
def _commit(folder: Path) -> str:
    """Of a clone, its commit behind a plus sign, marked where files were changed; else nothing."""
    git = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        told = subprocess.run(git, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    known = told.returncode == 0 and _tracked(folder)
    return f"+{told.stdout.strip()}" if known else ""


def _tracked(folder: Path) -> bool:
    """Whether this file belongs to the clone: a package may be installed inside another one."""
    git = ["git", "-C", str(folder), "ls-files", "--error-unmatch", "machine.py"]
    return subprocess.run(git, capture_output=True, timeout=10).returncode == 0


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from its folder, or another build of OpenCV
        return __version__ if package == "queryshift" else "not installed"
