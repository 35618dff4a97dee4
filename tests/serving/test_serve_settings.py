"""serve.toml: checked, in sentences, overridden by the environment and the command line."""

import inspect
import re
from hashlib import sha256

import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from queryshift import Error
from queryshift.cli import main
from queryshift.serving.http.access import check_exposure
from queryshift.serving.settings import ServeSettings, read_settings
from queryshift.sessions.guard import Guard


def settings(tmp_path, toml: str, **given):
    path = tmp_path / "serve.toml"
    path.write_text(toml)
    return read_settings(path, **given)


def test_without_a_file_the_embedded_world_is_served_here():
    plain = read_settings(None)
    assert plain.host == "127.0.0.1" and list(plain.collections) == ["tangram"]
    assert plain.collections["tangram"].gallery == "embedded"
    assert plain.collections["tangram"].mode == "live"


def test_new_tenants_of_ones_own_collection_are_in_shadow(tmp_path):
    own = settings(tmp_path, '[collections.shop]\ngallery = "shop.gallery"\nmodel = "clip-base"')
    assert own.collections["shop"].mode == "shadow" and own.collections["shop"].keep_queries == 0


def test_a_side_for_queries_is_asked_with_text(tmp_path):
    known = settings(tmp_path, '[collections.a]\nqueries = "query"\n[collections.b]').collections
    assert known["a"].modality == "text" and known["b"].modality == "image"


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path, monkeypatch):
    toml = 'port = 1\nhost = "localhost"\n[collections.shop]\ngather = 4'
    monkeypatch.setenv("QUERYSHIFT_PORT", "2")
    monkeypatch.setenv("QUERYSHIFT_COLLECTIONS__SHOP__GATHER", "5")
    assert settings(tmp_path, toml).port == 2
    assert settings(tmp_path, toml).collections["shop"].gather == 5
    assert settings(tmp_path, toml, port=3).port == 3
    assert settings(tmp_path, toml, port=None).host == "localhost"


def test_a_guard_has_all_its_fields_here_and_in_the_environment(tmp_path, monkeypatch):
    toml = "[collections.shop.guard]\ncollapse = 1\n[collections.bare]\nguard = false"
    monkeypatch.setenv("QUERYSHIFT_COLLECTIONS__SHOP__GUARD__SPREAD", "3")
    known = settings(tmp_path, toml).collections
    assert known["shop"].guard == Guard(collapse=1.0, spread=3.0)
    assert (
        known["bare"].guard is False
        and ServeSettings.model_validate(
            {"collections": {"shop": known["shop"].model_dump(mode="json")}}
        )
        .collections["shop"]
        .guard
        == known["shop"].guard
    )


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("prot = 1", "there is no setting prot"),
        ("port = 70000", "port is 70000"),
        ("[collections.shop]\nmethod = 3", "collections.shop.method is 3"),
        ("[collections.shop]\ngathers = 3", "no setting collections.shop.gathers"),
        ('[collections."a/b"]\n', "collections.a/b"),
        ("port = ", "is no TOML file"),
        ('[[tokens]]\nname = "a"\nsha256 = "secret"\nscopes = ["read"]', "tokens.0.sha256"),
        ("[limits]\nqueries = 1000", "would never be taken"),
        ('[collections.shop]\nmodel = "vectors"', 'queries = "vector"'),
        ('[collections.shop]\nqueries = "vector"', 'model = "vectors"'),
        ("[collections.shop.guard]\ndrift = 3", "no setting collections.shop.guard.drift"),
        ("[collections.shop.guard]\ncollapse = 1.5", "collections.shop.guard: got Guard("),
        ("[collections.shop.guard]\nspread = 'very'", "collections.shop.guard.spread is"),
        (
            "[collections.shop.guard.reference]\nmean = 1\ndeviation = 1\ncount = 2",
            "reference = FILE",
        ),
    ],
)
def test_what_is_wrong_is_a_sentence(tmp_path, toml, told):
    with pytest.raises(Error, match=r"serve\.toml|limits\.queries|collections\.shop") as raised:
        settings(tmp_path, toml)
    assert told in str(raised.value) and str(raised.value).endswith((".", "?"))


def test_a_missing_file_is_a_sentence(tmp_path):
    with pytest.raises(Error, match="there is no file"):
        read_settings(tmp_path / "serve.toml")


def test_others_are_served_only_with_tokens(tmp_path):
    with pytest.raises(Error, match="there are no tokens"):
        check_exposure(read_settings(None, host="0.0.0.0"))
    digest = sha256(b"t").hexdigest()
    token = f'[[tokens]]\nname = "a"\nsha256 = "{digest}"\nscopes = ["read"]'
    check_exposure(settings(tmp_path, token, host="0.0.0.0"))
    check_exposure(settings(tmp_path, "", host="::1"))


def test_the_command_refuses_to_serve_others_without_tokens():
    ran = CliRunner().invoke(main, ["serve", "--host", "0.0.0.0"])
    assert ran.exit_code == 2 and "there are no tokens" in ran.output


def test_strict_holds_for_all_collections(tmp_path, monkeypatch):
    served = []
    monkeypatch.setattr("queryshift.serving.serve.serve", served.append)
    file = tmp_path / "serve.toml"
    file.write_text("[collections.one]\n[collections.two]\n")
    for options in ([], ["--strict"]):
        assert CliRunner().invoke(main, ["serve", str(file), *options]).exit_code == 0
    assert [[one.strict for one in each.collections.values()] for each in served] == [
        [False, False],
        [True, True],
    ]


def test_the_former_name_of_reference_queries_is_taken(tmp_path, caplog):
    old = settings(tmp_path, '[collections.shop]\nordinary = "queries.jsonl"')
    assert str(old.collections["shop"].reference) == "queries.jsonl"
    assert '"ordinary" is now "reference"' in caplog.text


def test_a_new_token_comes_with_its_entry():
    ran = CliRunner().invoke(main, ["serve", "--new-token"])
    token = ran.stderr.split()[-1]
    assert sha256(token.encode()).hexdigest() in ran.stdout and token not in ran.stdout


def models(kind: type) -> set[type]:
    """A model and those of its fields."""
    found = {kind}
    for field in kind.model_fields.values():
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(part, type) and issubclass(part, BaseModel):
                found |= models(part)
    return found


def meanings(kind: type) -> dict[str, str]:
    """What each field of a model means, as its docstring says."""
    section = inspect.getdoc(kind).partition("Attributes:\n")[2]
    told = re.findall(r"^    (\w+): (.*(?:\n        .*)*)", section, re.M)
    return {name: re.sub(r"\s+", " ", text) for name, text in told}


def test_every_field_says_what_it_means():
    kinds = models(ServeSettings)
    assert len(kinds) == 6
    for kind in kinds:
        assert meanings(kind).keys() == kind.model_fields.keys(), kind.__name__


@pytest.mark.parametrize("name", ["PROT", "LIMITS_PIXELS", "LIMITS__PIXEL", "TENANT__LOADED"])
def test_a_misspelt_variable_of_the_environment_is_refused(name, monkeypatch):
    monkeypatch.setenv(f"QUERYSHIFT_{name}", "1")
    with pytest.raises(Error, match="no setting"):
        read_settings(None)


def test_variables_that_are_no_settings_are_left_alone(monkeypatch):
    monkeypatch.setenv("QUERYSHIFT_HOME", "/tmp")
    monkeypatch.setenv("QUERYSHIFT_SERVICE_HOST", "10.0.0.1")  # Kubernetes names a service so
    assert read_settings(None)
