"""HTML pages from the templates of a package: escaped, and strict about unknown names."""

from __future__ import annotations

from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template


@cache
def template(package: str, name: str, *shared: str) -> Template:
    """A template in the folder `templates` of a package, with those of `shared` to include."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(one) for one in (package, *shared)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template(name)
