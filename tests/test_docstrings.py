"""Every public name says what it takes and gives, with an example that runs."""

import doctest
import inspect
import re
import typing

import pytest

import queryshift

NAMES = [name for name in queryshift.__all__ if name != "__version__"]
ATTRIBUTES = {"METHODS": "queryshift.methods", "MODELS": "queryshift.models.loading"}
MADE = {"Answer"}  # by sessions only
EXAMPLES = re.compile(r"^ *Examples:\n +>>> ", re.M)


def source_of(name: str) -> str:
    """The docstring of a public name; a table's is the string below it in its module."""
    if name not in ATTRIBUTES:
        return inspect.getdoc(getattr(queryshift, name)) or ""
    module = inspect.getsource(__import__(ATTRIBUTES[name], fromlist=["*"]))
    (doc,) = re.findall(rf'^{name}\b[^"]*?=.*?^[)}}]\n"""(.*?)"""', module, re.M | re.S)
    return inspect.cleandoc(doc)


def section(doc: str, title: str) -> str:
    """The lines of one section of a docstring."""
    match = re.search(rf"^{title}:\n((?:(?: .*)?\n?)*)", doc, re.M)
    return match.group(1) if match else ""


def arguments(function: typing.Any) -> set[str]:
    """The parameters that a caller names."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = inspect.signature(function).parameters.values()
    return {one.name for one in named if one.kind not in kinds} - {"self", "cls"}


def told(doc: str) -> set[str]:
    """The arguments that a docstring explains; a dataclass's are its attributes."""
    lines = section(doc, "Args") + section(doc, "Attributes")
    return set(re.findall(r"^    (\w+): \S", lines, re.M))


def methods(kind: type) -> dict[str, typing.Any]:
    """The public methods that a class brings itself, not those it overrides."""
    inherited = {name for base in kind.__mro__[1:] for name in vars(base)}
    return {
        name: getattr(kind, name)
        for name, member in vars(kind).items()
        if not name.startswith("_")
        and name not in inherited
        and (inspect.isfunction(member) or isinstance(member, classmethod | staticmethod))
    }


def gives_nothing(function: typing.Any) -> bool:
    return inspect.signature(function).return_annotation in (None, "None")


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_an_example(name):
    assert EXAMPLES.search(source_of(name)), name


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ATTRIBUTES])
def test_its_arguments_and_its_result_are_told(name):
    thing = getattr(queryshift, name)
    if not inspect.isclass(thing):
        check(thing)
        return
    docs = [inspect.cleandoc(base.__doc__ or "") for base in thing.__mro__]
    if not issubclass(thing, Exception) and name not in MADE:
        assert arguments(thing) <= set.union(*map(told, docs)), name
    for method in methods(thing).values():
        check(method)


def check(function: typing.Any) -> None:
    doc = inspect.getdoc(function) or ""
    assert arguments(function) <= told(doc), function
    assert gives_nothing(function) or section(doc, "Returns"), function


@pytest.mark.parametrize("name", NAMES)
def test_its_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    thing = getattr(queryshift, name)
    if name in ATTRIBUTES:
        runner.run(doctest.DocTestParser().get_doctest(source_of(name), {}, name, None, None))
    else:
        for test in finder.find(thing, name, module=inspect.getmodule(thing), globs={}):
            runner.run(test)
    assert runner.tries and not runner.failures


def test_no_example_is_skipped():
    assert not [name for name in NAMES if "+SKIP" in source_of(name)]
