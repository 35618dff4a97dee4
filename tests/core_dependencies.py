"""What a bare install brings: the core's dependencies, theirs, and so on; all else is refused."""

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def closure(requirements: list[str]) -> set[str]:
    """The names of these distributions and of all that they require, on this machine."""
    names: set[str] = set()
    waiting = [Requirement(line) for line in requirements]
    while waiting:
        requirement = waiting.pop()
        extras = requirement.extras or {""}
        wanted = requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in extras
        )
        name = canonicalize_name(requirement.name)
        if not wanted or name in names:
            continue
        names.add(name)
        try:
            waiting += [Requirement(line) for line in requires(requirement.name) or ()]
        except PackageNotFoundError:
            continue
    return names


def refused(*extras: str) -> set[str]:
    """Installed top-level modules that the core, with these extras, does not bring."""
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    brought = closure(lines) | {"queryshift"}
    return {
        module
        for module, owners in packages_distributions().items()
        if not brought & set(map(canonicalize_name, owners))
        and module not in sys.stdlib_module_names
    }


REFUSE = """
import sys

class Refuse:
    names = {names!r}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
"""


def refusing(*extras: str) -> str:
    """Python code that makes a process see only what the core and these extras bring."""
    return REFUSE.format(names=refused(*extras))
