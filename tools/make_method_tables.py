"""Write the table of settings into every page of docs/methods; the test asks for it with --check.

python tools/make_method_tables.py [--check]
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import fields
from pathlib import Path

from queryshift.methods import METHODS, WRAPPERS
from queryshift.methods.base import Method

PAGES = Path(__file__).parents[1] / "docs" / "methods"
INDEX = "README"
SHARED_ONLY = "[Those of every method](README.md#settings-of-every-method)."
START, END = "<!-- settings -->", "<!-- end of settings -->"


def meanings(method: type[Method]) -> dict[str, str]:
    """What each setting means: `Args:` in the docstrings of the method and its bases."""
    found: dict[str, str] = {}
    for owner in reversed(method.__mro__):
        _, _, section = inspect.cleandoc(owner.__doc__ or "").partition("Args:\n")
        entries = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", section.split("\n\n")[0], re.M)
        found |= {name: " ".join(text.split()) for name, text in entries}
    return found


def table(method: type[Method]) -> str:
    """Settings with defaults and origin: of `Method` all, of a method those that differ."""
    head = ["| setting | default | from | meaning |", "|---|---|---|---|"]
    own = [line for line in rows(method) if method is Method or line not in rows(Method)]
    return "\n".join([*head, *own]) if own else SHARED_ONLY


def rows(method: type[Method]) -> list[str]:
    """One line of the table for each setting."""
    lines, said = [], meanings(method)
    for one in fields(method):
        if one.name == "method":
            continue
        default, about = one.default, said.get(one.name, "").rstrip(".")
        if one.name in method.fallback and default is None:
            found = one.name == "lr" and method.rate_of_stream
            own = "found in the first batch" if found else f"{method.fallback[one.name]:g}"
            default = f"None: {own} unless the encoder recommends another"
            about = about.split(";")[0]
        origin = one.metadata.get("origin", "ours")
        lines.append(f"| `{one.name}` | {default} | {origin} | {about} |")
    return lines


def page(path: Path, method: type[Method]) -> str:
    """The page with its table made anew."""
    before, rest = path.read_text(encoding="utf8").split(START)
    return f"{before}{START}\n{table(method)}\n{END}{rest.split(END)[1]}"


def main(check: bool) -> int:
    """Rewrite the pages, or say which are out of date."""
    stale = []
    for name, method in {**METHODS, **WRAPPERS, INDEX: Method}.items():
        path = PAGES / f"{name}.md"
        if not path.is_file():
            stale.append(
                f"{path.name} is missing: write it, with the lines {START} and {END} in it"
            )
        elif (new := page(path, method)) != path.read_text(encoding="utf8"):
            stale.append(path.name)
            if not check:
                path.write_text(new, encoding="utf8")
    print("\n".join(stale) or "all pages are up to date")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
