"""Methods in words: what can be said, what it stands for, and what is refused."""

from dataclasses import fields

import pytest

from queryshift import METHODS, Decoupled, Refined
from queryshift.errors import BadInput, UnknownName
from queryshift.methods import WRAPPERS
from queryshift.methods.specs import Spec, canonical
from queryshift.retrieval.hubness.hub_correction import Hubs
from queryshift.support.setting_fields import sayable


def parse(text):
    return Spec.read(text).make()


@pytest.mark.parametrize("name", METHODS)
def test_a_name_alone_is_the_method_itself(name):
    assert canonical(name) == name
    assert type(parse(name)) is METHODS[name]


@pytest.mark.parametrize(
    ("written", "once"),
    [
        ("rest:decouple=False", "rest:decouple=false"),
        ("rest: mining=false, gap=false", "rest:gap=false,mining=false"),
        ("tent:lr=1e-3+decoupled", "tent:lr=0.001+decoupled"),
        ("tent:lr=NONE", "tent:lr=none"),
        ("tent+refined:neighbours=05", "tent+refined:neighbours=5"),
    ],
)
def test_there_is_one_way_to_write_it(written, once):
    assert canonical(written) == canonical(once) == once
    assert parse(written) == parse(once)


def test_settings_are_the_fields_of_the_method():
    rest = parse("rest:gap=false,neighbours=5,lr=2,over=tensor,temperature=none")
    assert (rest.gap, rest.neighbours, rest.over) == (False, 5, "tensor")
    assert (rest.lr, rest.temperature, rest.mining) == (2.0, None, True)
    assert isinstance(rest.lr, float)


def test_wrappers_and_their_settings():
    both = parse("tent:lr=0.5+refined:neighbours=3+decoupled")
    assert isinstance(both, Decoupled) and isinstance(both.method, Refined)
    assert (both.name, both.method.neighbours) == ("tent+refined+decoupled", 3)
    assert both.method.method.lr == 0.5


def test_rest_decouples_by_itself():
    assert parse("rest+decoupled") == parse("rest:decouple=true")
    assert isinstance(parse("rest+decoupled:over=tensor"), Decoupled)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("tnt:lr=1", 'no method "tnt"; did you mean "tent"'),
        ("tent+polished", 'no wrapper "polished"'),
        ("tent:lrr=1", 'no setting of tent "lrr"; did you mean "lr"'),
        ("tent+decoupled:method=pl", 'no setting of decoupled "method"'),
    ],
)
def test_an_unknown_name_is_named(spec, said):
    with pytest.raises(UnknownName, match=said):
        parse(spec)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("tent:lr=fast", 'tent: lr is "fast", expected a number or none'),
        ("rest:gap=0", 'gap is "0", expected true or false'),
        ("rest:neighbours=1.5", 'neighbours is "1.5", expected a whole number'),
        ("rest:over=some", 'over is "some", expected all or tensor'),
        ("tent:lr", 'got "lr", expected setting=value'),
        ("tent:", "expected setting=value"),
        ("tent:lr=1,lr=2", "lr is given twice"),
        ("tent:lr=-1", "lr is -1.0, expected a number of at least 0"),
        ("tent:lr=-1+decoupled", "tent: lr is -1.0"),
        ("tent+decoupled:weight_decay=1", r"wrapped method decides.*Tent\(weight_decay=1.0\)"),
        ("tent+refined:optimiser=sgd+decoupled", r"tent\+refined: got optimiser='sgd', which"),
    ],
)
def test_what_cannot_be_is_refused_with_what_was_expected(spec, said):
    with pytest.raises(BadInput, match=said):
        parse(spec)


@pytest.mark.parametrize(
    ("spec", "beyond"),
    [
        ("eata:share=1", "eata:share=1.01"),
        ("sar:share=1", "sar:share=1.01"),
        ("tcr:queue_share=0", "tcr:queue_share=-0.01"),
        ("tcr:queue_share=1", "tcr:queue_share=1.01"),
        ("rest:queue_size=1", "rest:queue_size=0"),
        ("rest:queue_batches=1", "rest:queue_batches=0"),
        ("infomax:neighbours=1", "infomax:neighbours=0"),
        ("infomax:part=0.5", "infomax:part=0"),
        ("tent+refined:neighbours=1", "tent+refined:neighbours=0"),
        ("tent+decoupled:neighbours=1", "tent+decoupled:neighbours=0"),
    ],
)
def test_the_last_value_of_a_setting_is_taken_and_the_next_refused(spec, beyond):
    assert parse(spec) == parse(canonical(spec))
    with pytest.raises(BadInput, match="expected"):
        parse(beyond)


def test_every_setting_of_every_method_can_be_said():
    for name, kind in (*METHODS.items(), *WRAPPERS.items()):
        plain = kind() if name in METHODS else kind(METHODS["tent"]())
        unsayable = {one.name for one in fields(kind)} - sayable(kind).keys()
        assert unsayable <= {"method", "fisher"}
        for key in sayable(kind):
            spec = f"{name}:{key}={getattr(plain, key)}"
            whole = spec if name in METHODS else f"tent+{spec}"
            assert getattr(parse(whole), key) == getattr(plain, key)


@pytest.mark.parametrize("name", ["REST", "TCR"])
def test_refining_what_has_nothing_to_refine_is_said(name):
    import queryshift as qs

    with pytest.warns(UserWarning, match=rf"Refined\({name}\) is {name}"):
        qs.Refined(getattr(qs, name)())


def test_hubs_come_last_and_are_the_session_s():
    spec = Spec.read("tent:lr=0.5 + refined + hubs: bank = 64")
    assert str(spec) == "tent:lr=0.5+refined+hubs:bank=64"
    assert spec.hubs == Hubs(bank=64)
    assert spec.make() == parse("tent:lr=0.5+refined")
    assert Spec.read("frozen+hubs").hubs == Hubs()
    assert Spec.read("frozen").hubs is None
    assert canonical("rest+hubs") == "rest+hubs"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("tent+hubs+refined", r"write \+hubs last"),
        ("tent+hubs+hubs", r"write \+hubs last"),
        ("tent+hubs:size=3", 'no setting of hubs "size"'),
        ("tent+hubs:bank=some", 'bank is "some", expected a whole number'),
        ("hubs", 'no method "hubs"'),
    ],
)
def test_hubs_that_cannot_be_are_refused(spec, said):
    with pytest.raises(BadInput, match=said):
        Spec.read(spec)


def test_the_default_is_a_name_and_no_method():
    assert canonical(" default") == "default"
    with pytest.raises(BadInput, match=r"a session without one: Session\(encoder, gallery\)"):
        parse("default")
    with pytest.raises(UnknownName, match='did you mean "default"'):
        Spec.read("defualt")
