"""Device and versions of the machine that ran a cell."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from queryshift import __version__


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
