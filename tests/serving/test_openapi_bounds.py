"""/openapi.json says what bodies and parameters may be; /metrics has buckets that alerts use."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from queryshift.serving.http import schemas
from queryshift.serving.http.limits import Connections
from queryshift.serving.metrics import Metrics
from queryshift.serving.serve import make_app
from queryshift.serving.settings import ServeSettings

ALERTS = Path(__file__).parents[2] / "docs" / "deploy" / "alerts.yaml"
HOME = "/v1/collections/{collection}"
TENANTS = f"{HOME}/tenants"
SAID = ("default", "minimum", "maximum", "minItems", "maxItems", "maxLength")
FIELDS = {
    "SearchBody.tenant": {"default": "default"},
    "SearchBody.queries": {"default": None, "maxItems": 4096},
    "SearchBody.k": {"default": 10, "minimum": 1},
    "SearchBody.adapt": {"default": True},
    "SearchBody.compare": {"default": False},
    "SearchBody.trial": {"default": False},
    "SearchBody.exclude": {"default": None, "maxItems": 4096},
    "ReferenceBody.queries": {"minItems": 2, "maxItems": 4096},
    "CorruptBody.queries": {"default": None, "maxItems": 256},
    "CorruptBody.corruption": {"maxLength": 64},
    "CorruptBody.severity": {"minimum": 1, "maximum": 5},
    "Click.query": {"default": 0, "minimum": 0},
    "Click.ids": {"maxItems": 1000},
    "FeedbackBody.request_id": {"maxLength": 64},
    "FeedbackBody.clicks": {"maxItems": 1000},
}
PARAMETERS = {
    (f"{HOME}/samples", "n"): {"default": 8, "minimum": 1, "maximum": 256},
    (TENANTS, "limit"): {"default": 100, "minimum": 1, "maximum": 1000},
    (TENANTS, "after"): {"default": ""},
    (f"{TENANTS}/{{tenant}}/history", "since"): {"default": 0, "minimum": 0},
    (f"{TENANTS}/{{tenant}}/history", "limit"): {"default": 1000, "minimum": 1, "maximum": 5000},
}


def said(schema) -> dict:
    """The bounds of a field, also where it may be null."""
    parts = [schema, *schema.get("anyOf", ())]
    return {name: part[name] for part in parts for name in SAID if name in part}


@pytest.fixture(scope="module")
def told():
    settings = ServeSettings()
    app = make_app(settings, SimpleNamespace(store=None), Metrics(), Connections(8))
    return app.openapi()


@pytest.mark.parametrize("field", FIELDS)
def test_a_body_has_its_bounds_and_takes_no_other_field(field):
    body, _, name = field.partition(".")
    told = schemas.taken(getattr(schemas, body))["requestBody"]
    schema = told["content"]["application/json"]["schema"]
    assert told["required"] is True and schema["additionalProperties"] is False
    assert said(schema["properties"][name]) == FIELDS[field]


@pytest.mark.parametrize(("path", "name"), PARAMETERS)
def test_a_parameter_has_its_default_and_bounds(told, path, name):
    asked = {one["name"]: one["schema"] for one in told["paths"][path]["get"]["parameters"]}
    assert said(asked[name]) == PARAMETERS[path, name]


def test_a_search_is_described_as_it_is_read(told):
    for path, body in ((f"{HOME}/search", "SearchBody"), (f"{HOME}/corrupt", "CorruptBody")):
        assert told["paths"][path]["post"]["requestBody"]["required"] is True
        content = told["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        assert content["schema"]["title"] == body


def test_answers_are_described_with_their_status(told):
    answers = told["paths"][f"{HOME}/search"]["post"]["responses"]
    assert set(answers) == {"200", "4XX", "5XX"}
    schema = answers["200"]["content"]["application/json"]["schema"]
    assert schema["$ref"].endswith("/SearchAnswer")


def buckets(text: str, name: str) -> list[float]:
    found = re.findall(rf'^queryshift_{name}_bucket{{.*le="([^"]+)"', text, re.M)
    return [float(one) for one in found if one != "+Inf"]


def test_measures_have_buckets_of_even_steps_and_one_second_is_a_bound():
    metrics = Metrics()
    metrics.requests.labels("/search", "2xx").observe(0.1)
    metrics.shift_score.labels("shop").observe(0.0)
    text = metrics.text().decode()
    for name in ("request_seconds", "forward_seconds", "update_seconds", "learning_delay_seconds"):
        bounds = buckets(text, name)
        assert {f"{one:e}"[:3] for one in bounds} <= {"1.0", "2.0", "5.0"}, name
        assert bounds == sorted(set(bounds)) and 1.0 in bounds and len(bounds) == 12, name
    assert buckets(text, "request_seconds")[0] == 0.002 and "> 1\n" in ALERTS.read_text()
    assert buckets(text, "learning_delay_seconds")[-1] == 200
    assert buckets(text, "batch_queries") == [2**power for power in range(8)]
    scores = buckets(text, "shift_score")
    assert scores == [-5, -3, -1, 0, 1, 3, 5, 10, 20, 50]  # up to 3, queries count as usual
