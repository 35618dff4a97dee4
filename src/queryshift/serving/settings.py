"""What `serve.toml` says: every field with its meaning, checked; the environment overrides it."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.types import FilePath
from pydantic_settings import BaseSettings, SettingsConfigDict, TomlConfigSettingsSource

from queryshift.errors import BadInput, unknown
from queryshift.sessions.guard import Guard
from queryshift.support.deprecation import DROPPED_IN

Mode = Literal["live", "shadow", "frozen"]
Scope = Literal["read", "adapt", "admin"]
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
EMBEDDED = "embedded"
VECTORS, VECTOR = "vectors", "vector"  # a model, and what it is asked with
PREFIX = "QUERYSHIFT_"
logger = logging.getLogger("queryshift.serving")
NO_SETTINGS = ("home", "service_", "port_")  # the user's folder; what Kubernetes sets


class Part(BaseModel):
    """A table of the file: unknown names are refused, values stay as they were read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _without_reference(guard: Guard | Literal[False]) -> Guard | Literal[False]:
    if guard and guard.reference is not None:
        raise BadInput("reference queries are a file of the collection: reference = FILE.")
    return guard


class CollectionSettings(Part):
    """A model, its candidates, and how its tenants adapt.

    Attributes:
        model: what queryshift.load takes; "vectors" if clients send vectors
        device: where the model runs, such as "cpu" or "cuda"; none: as set at the top
        queries: what a query is: "image", "text", "audio", "image+text"; "vector" for "vectors"
        gallery: a gallery file, a search engine's address, or "embedded" (bundled)
        candidates: candidates of the bundled gallery
        method: how tenants adapt, such as "rest+hubs"; none: the default session
        guard: limits what queries can change; false: no guard
        gather: queries that a tenant learns together (a group)
        mode: mode of new tenants: "shadow", "live" or "frozen"
        reference: JSON lines of reference queries
        samples: JSON lines of queries to try on the page
        strict: whether a bad line of these two files is an error; else it is left out
        keep_queries: latest queries of a tenant to show on the page; 0: none
    """

    model: str = "tangram"
    device: str | None = None
    queries: str = "image"
    gallery: str = EMBEDDED
    candidates: int = Field(2000, ge=16)
    method: str | None = None
    guard: Annotated[Guard | Literal[False], AfterValidator(_without_reference)] = Guard()
    gather: int = Field(16, ge=2, le=1024)
    mode: Mode = "shadow"
    reference: Path | None = None
    samples: Path | None = None
    strict: bool = False
    keep_queries: int = Field(0, ge=0, le=1000)

    @model_validator(mode="before")  # type: ignore[untyped-decorator,unused-ignore]
    @classmethod
    def _take_old_names(cls, given: Any) -> Any:
        if isinstance(given, dict) and "ordinary" in given:
            logger.warning('"ordinary" is now "reference"; the old name goes in %s.', DROPPED_IN)
            given = {**given, "reference": given["ordinary"]}
            del given["ordinary"]
        return given

    @property
    def modality(self) -> str:
        """What clients send as one query: text, where the model has a side for queries."""
        return "text" if self.queries in ("query", "passage") else self.queries


TO_TRY = {"tangram": CollectionSettings(mode="live", keep_queries=50)}


class LimitSettings(Part):
    """How large a request may be; looked at before anything is decoded.

    Attributes:
        body_bytes: bytes of a request's body; at most 1 MiB for routes of a tenant
        body_seconds: seconds for the headers; for body and answer also 1 s per 10,000 bytes
        header_bytes: bytes of a request's headers and trailers
        header_lines: lines of a request's headers and trailers
        connections: open connections; beyond that, the one that is silent for longest is closed
        pixels: pixels of an image
        seconds: seconds of an audio query
        characters: characters of a text
        queries: queries in a request
        hits: hits per query: the largest k
        hits_in_all: hits per request: queries times k
        exclude: excluded ids in a request
        clicks: clicks in a feedback request
    """

    body_bytes: int = Field(16 * 2**20, ge=1024)
    body_seconds: float = Field(30, gt=0)
    header_bytes: int = Field(32_768, ge=1024)
    header_lines: int = Field(100, ge=10)
    connections: int = Field(1024, ge=1)
    pixels: int = Field(32_000_000, ge=1)
    seconds: float = Field(600, gt=0)
    characters: int = Field(10_000, ge=1)
    queries: int = Field(256, ge=1)
    hits: int = Field(1000, ge=1)
    hits_in_all: int = Field(20_000, ge=1)
    exclude: int = Field(10_000, ge=0)
    clicks: int = Field(1000, ge=1)


class QueueSettings(Part):
    """How much may wait.

    Attributes:
        batch: queries answered together; use more on a GPU
        batch_of_tenant: queries of busy tenants in a batch
        waiting: queries waiting for an answer
        waiting_of_tenant: queries of one tenant waiting for an answer
        updates_of_tenant: groups of a tenant waiting to be learnt; beyond that, the oldest is
            dropped
        learning_share: largest share of time for learning while queries wait
        gathered_bytes: bytes of queries not learnt yet; beyond that, groups are dropped
    """

    batch: int = Field(16, ge=1)
    batch_of_tenant: int = Field(2, ge=1)
    waiting: int = Field(2048, ge=1)
    waiting_of_tenant: int = Field(512, ge=1)
    updates_of_tenant: int = Field(4, ge=1)
    learning_share: float = Field(0.25, gt=0, le=1)
    gathered_bytes: int = Field(256 * 2**20, ge=2**20)


class TenantSettings(Part):
    """What is kept of each tenant, and where.

    Attributes:
        loaded: tenants of a collection in memory
        known: tenants of a collection
        history: groups whose statistics are kept
        feedback_requests: latest requests of a tenant that can get feedback; in memory, up to 256
            KiB
        snapshots: snapshots of a tenant
        save_batches: learnt groups after which a tenant is written
        save_seconds: seconds after which a change is written
        keep_days: days until statistics, events, clicks and unused tenants are deleted; none: never
    """

    loaded: int = Field(1000, ge=1)
    known: int = Field(100_000, ge=1)
    history: int = Field(2000, ge=10)
    feedback_requests: int = Field(1024, ge=1)
    snapshots: int = Field(32, ge=1)
    save_batches: int = Field(8, ge=1)
    save_seconds: float = Field(10, gt=0)
    keep_days: float | None = Field(None, gt=0)


class TokenSettings(Part):
    """A bearer token and what it may do.

    Attributes:
        name: name of the token in the log
        sha256: its SHA-256, as queryshift serve --new-token prints it
        scopes: read: searches without learning, statistics; adapt: searches with learning,
            feedback; admin: everything else
        collections: names, or "*"
        tenants: names, or "*"
        rate: requests per second; none: no limit
        burst: requests that may come at once
    """

    name: Name
    sha256: Digest
    scopes: list[Scope] = Field(min_length=1)
    collections: list[str] = Field(["*"])
    tenants: list[str] = Field(["*"])
    rate: float | None = Field(None, gt=0)
    burst: int = Field(20, ge=1)


class ServeSettings(BaseSettings):
    """All of a server's settings: `serve.toml`, then `QUERYSHIFT_...` of the environment.

    Attributes:
        host: address to listen on
        port: port to listen on; 0: a free one
        data: folder of the SQLite file and of built galleries
        store: a PostgreSQL address (postgresql://…), for several replicas; none: SQLite in data
        device: where models run, such as "cuda:1"; none: cpu
        threads: torch threads; none: CPU cores minus one
        collections: one table per collection
        limits: limits of requests
        queues: limits of queues
        tenants: what is kept
        tokens: one table per token; without any, only the loopback address is served
        open_metrics: whether /metrics needs no token
        origins: other sites whose pages may call (CORS)
        hosts: accepted host names; empty: any if there are tokens, else loopback names
        tls_certificate: PEM file; turns on HTTPS
        tls_key: PEM file of its private key
        drain_seconds: seconds to finish requests and learning at shutdown
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535)
    data: Path = Path("queryshift-serve")
    store: str | None = None
    device: str | None = None
    threads: int | None = Field(None, ge=1)
    collections: dict[Name, CollectionSettings] = Field(TO_TRY, min_length=1)
    limits: LimitSettings = LimitSettings()
    queues: QueueSettings = QueueSettings()
    tenants: TenantSettings = TenantSettings()
    tokens: list[TokenSettings] = Field([])
    open_metrics: bool = False
    origins: list[str] = Field([])
    hosts: list[str] = Field([])
    tls_certificate: FilePath | None = None
    tls_key: FilePath | None = None
    drain_seconds: float = Field(20, ge=0)


def read_settings(path: Path | None, strict: bool = False, **given: Any) -> ServeSettings:
    """The settings of a file, the environment and the command line, the later ones first.

    Args:
        path: a `serve.toml`; None takes the defaults, the embedded world.
        strict: whether all collections are strict, whatever the file says.
        given: values of the command line; None is not given.

    Returns:
        The settings, checked.
    """
    if path is not None and not path.is_file():
        raise BadInput(f'there is no file "{path}": expected a serve.toml, or none for a trial.')

    class Sources(ServeSettings):
        """The same, reading this file."""

        @classmethod
        def settings_customise_sources(
            cls, settings_cls: Any, init_settings: Any, env_settings: Any, *others: Any, **more: Any
        ) -> tuple[Any, ...]:
            """Command line, environment, file, in this order."""
            first = (init_settings, env_settings)
            return first if path is None else (*first, _toml(settings_cls, path))

    _check_environment()
    known = {name: value for name, value in given.items() if value is not None}
    try:
        settings = Sources(**known)
    except ValidationError as error:
        raise BadInput(_sentence(error, path)) from None
    _check_together(settings)
    if not strict:
        return settings
    every = {
        name: one.model_copy(update={"strict": True}) for name, one in settings.collections.items()
    }
    made: ServeSettings = settings.model_copy(update={"collections": every})
    return made


def _check_together(settings: ServeSettings) -> None:
    """Refuse fields that contradict each other."""
    if settings.limits.queries > settings.queues.waiting_of_tenant:
        most = f"queues.waiting_of_tenant ({settings.queues.waiting_of_tenant})"
        told = f"limits.queries is {settings.limits.queries}, more than {most}"
        raise BadInput(f"{told}: such a request would never be taken.")
    for name, one in settings.collections.items():
        if (one.model == VECTORS) != (one.queries == VECTOR):
            got = f'collections.{name}: model is "{one.model}", queries is "{one.queries}"'
            both = f'model = "{VECTORS}" and queries = "{VECTOR}"'
            raise BadInput(f"{got}: where clients send vectors, set {both}.")


def _check_environment() -> None:
    """Refuse a variable of ours that is no setting: it would be passed over without a word."""
    names = list(ServeSettings.model_fields)
    for variable in os.environ:
        name = variable.lower().removeprefix(PREFIX.lower()).split("__")[0]
        ours = variable.upper().startswith(PREFIX) and not name.startswith(NO_SETTINGS)
        if ours and name not in names:
            raise BadInput(f"{variable} in the environment: {unknown('setting', name, names)}")


def _toml(settings_cls: Any, path: Path) -> Any:
    try:
        return TomlConfigSettingsSource(settings_cls, path)
    except ValueError as error:  # tomllib's
        raise BadInput(f'"{path}" is no TOML file ({error}): repair that line.') from None


def _sentence(error: ValidationError, path: Path | None) -> str:
    """The first thing that is wrong, by its place in the file."""
    first = error.errors(include_url=False)[0]
    parts = [str(part) for part in first["loc"] if part != Guard.__name__]
    place = ".".join(parts) or "the file"
    source = f'"{path}"' if path is not None else "the settings"
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{source}: there is no setting {place}: is it misspelt, or in another table?"
    if first["type"] == "value_error":
        return f"{source}: {place}: {first['ctx']['error']}"
    got = repr(first.get("input"))[:80]
    return f"{source}: {place} is {got}: {first['msg'][0].lower()}{first['msg'][1:]}."
