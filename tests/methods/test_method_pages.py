"""A method that is told nothing has the defaults of its page."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from queryshift import METHODS, Session

PAGES = Path(__file__).parents[2] / "docs" / "methods"
ROW = re.compile(r"^\| `(\w+)` \| (.+?) \|", re.M)


@pytest.mark.parametrize("name", METHODS)
def test_its_defaults_are_those_of_its_page(name, encoder, gallery):
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    told = dict(ROW.findall(text.partition("<!-- settings -->")[2].partition("<!-- end")[0]))
    plain = METHODS[name]()
    own = {
        one.name
        for one in fields(plain)
        if one.name in vars(type(plain)).get("__annotations__", ())
    }
    assert own <= told.keys() <= {one.name for one in fields(plain)}
    session = Session(encoder, gallery, plain)
    for setting, said in told.items():
        default = getattr(plain, setting)
        assert re.split("[:;]", said.strip("`"))[0] == str(default), setting
        if default is not None:  # a session changes none but what is left open
            assert getattr(session.method, setting) == default
