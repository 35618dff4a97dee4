"""The registry: the laboratory's parts are there by name, and anybody may add more."""

import subprocess
import sys

import pytest

from queryshift.errors import UnknownName
from queryshift.support.registry import BUNDLED_MODELS, CORRUPTIONS, MATCHERS, SAMPLE_WORLDS, Table


def test_the_laboratory_registers_itself():
    assert list(BUNDLED_MODELS) == ["tangram", "tangram-clips", "tangram-edits"]
    assert sorted(MATCHERS["TextEncoder"]) == ["image", "text"]
    assert SAMPLE_WORLDS["tangram"].__name__ == "TangramWorld"
    assert "noise" in CORRUPTIONS["names"]["image"]
    assert CORRUPTIONS["find"]("image", "fog").__name__ == "fog"
    assert CORRUPTIONS["corrupt"].__name__ == "corrupt"


def test_registering_loads_none_of_it():
    code = (
        "import sys; from queryshift.support.registry import BUNDLED_MODELS as models; "
        "print(list(models), 'queryshift.lab.tangram' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['tangram', 'tangram-clips', 'tangram-edits'] False"


def test_code_outside_may_add_a_name():
    table = Table("reader", {})
    table.add("json", "json:loads")
    assert table["json"]("[1]") == [1]
    with pytest.raises(UnknownName, match="reader"):
        _ = table["yaml"]
