"""The calls of the service without any input or output: what is sent, and how answers are read.

A call is a plan: a generator that yields a request to be sent or a number of seconds to wait, is
given what came of it, and ends with the result. `Client` carries plans out one after another,
`AsyncClient` in coroutines: both only send and wait.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias, TypeVar
from urllib.parse import quote
from uuid import uuid4

from queryshift.errors import (
    BadInput,
    Error,
    NotAllowed,
    ServiceBusy,
    ServiceLost,
    UnknownName,
    missing,
)

from . import results
from .queries import Query, encoded_all
from .results import Id, Json
from .retries import Retries

try:
    import httpx as httpx  # for both clients too
except ImportError as error:
    raise missing("httpx", "client", "the service's client") from error

T = TypeVar("T")
Outcome: TypeAlias = httpx.Response | httpx.TransportError
Request: TypeAlias = dict[str, Any]  # arguments of httpx's `request`
Plan: TypeAlias = Generator[Request | float, Outcome | None, T]
MOST_ROWS = 1000  # of a tenant's history in one answer
ERRORS: dict[int, type[Error]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: UnknownName,
    429: ServiceBusy,
}


class Core:
    """Plans of all calls about one collection.

    Args:
        url: where the service is, such as "http://127.0.0.1:8080"; a path before /v1 is kept.
        collection: the collection that is searched.
        token: sent as a bearer token.
        timeout: seconds for one try.
        retries: how often a call is sent again, or how often and how patiently.

    Attributes:
        options: the arguments of httpx's clients.
    """

    def __init__(
        self, url: str, collection: str, token: str | None, timeout: float, retries: int | Retries
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadInput(f'"{url}" is no address: begin it with http:// or https://.')
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": timeout}
        self._url, self._path = url, f"/{quote(collection, safe='')}"
        self._retries = Retries(retries) if isinstance(retries, int) else retries

    def search(
        self,
        queries: Sequence[Query],
        k: int = 10,
        *,
        tenant: str = "default",
        adapt: bool = True,
        compare: bool = False,
        exclude: Sequence[Sequence[Id]] | None = None,
        key: str | None = None,
    ) -> Plan[results.SearchResult]:
        """The hits of several queries."""
        body: dict[str, Any] = {"tenant": tenant, "queries": encoded_all(queries)}
        body |= {"k": k, "adapt": adapt, "compare": compare}
        if exclude is not None:
            body["exclude"] = [list(ids) for ids in exclude]
        path, read = f"{self._path}/search", results.SearchResult.from_json
        return self._call("POST", path, read, body, key=key, tenant=tenant)

    def feedback(
        self, request_id: str, clicks: Mapping[int, Sequence[Id]], *, tenant: str = "default"
    ) -> Plan[results.ClickMeans]:
        """Which hits of an earlier search were clicked."""
        rows = [{"query": query, "ids": list(ids)} for query, ids in clicks.items()]
        body = {"request_id": request_id, "clicks": rows}
        return self._of_tenant("POST", tenant, "/feedback", results.ClickMeans.from_json, body)

    def collections(self) -> Plan[list[results.Collection]]:
        """All collections."""
        return self._call("GET", "", _list_of(results.Collection.from_json, "collections"))

    def collection(self) -> Plan[results.Collection]:
        """The collection."""
        return self._call("GET", self._path, results.Collection.from_json)

    def set_reference(self, queries: Sequence[Query]) -> Plan[int]:
        """Hand over queries from when all was well."""
        body = {"queries": encoded_all(queries)}
        return self._call("PUT", f"{self._path}/reference", lambda data: int(data["queries"]), body)

    def tenants(self) -> Plan[list[results.TenantSummary]]:
        """All tenants, page by page."""
        rows, params = list[results.TenantSummary](), dict[str, Any]()
        read = _list_of(results.TenantSummary.from_json, "tenants")
        while True:
            more, after = yield from self._call(
                "GET",
                f"{self._path}/tenants",
                lambda data: (read(data), data.get("next")),
                params=params,
            )
            rows, params = rows + more, {"after": after}
            if after is None:
                return rows

    def tenant(self, tenant: str = "default") -> Plan[results.Tenant]:
        """One tenant."""
        return self._of_tenant("GET", tenant, "", results.Tenant.from_json)

    def history(self, tenant: str = "default", since: int = 0) -> Plan[list[results.HistoryRow]]:
        """The batches of a tenant after one of them, page by page."""
        rows, read = list[results.HistoryRow](), _list_of(results.HistoryRow.from_json, "rows")
        while True:
            params = {"since": since, "limit": MOST_ROWS}
            more = yield from self._of_tenant("GET", tenant, "/history", read, params=params)
            if not more:
                return rows
            rows, since = rows + more, more[-1].batch

    def set_mode(self, mode: str, tenant: str = "default") -> Plan[results.Tenant]:
        """Change who answers."""
        return self._changed(tenant, "mode", {"mode": mode})

    def reset(self, tenant: str = "default") -> Plan[results.Tenant]:
        """Give up all that was learnt."""
        return self._changed(tenant, "reset", {})

    def undo(self, tenant: str = "default") -> Plan[results.Tenant]:
        """Take back the last update."""
        return self._changed(tenant, "undo", {})

    def rollback(self, name: str, tenant: str = "default") -> Plan[results.Tenant]:
        """Put a kept state in force."""
        return self._changed(tenant, "rollback", {"name": name})

    def snapshots(self, tenant: str = "default") -> Plan[list[results.Snapshot]]:
        """The kept states of a tenant."""
        read = _list_of(results.Snapshot.from_json, "snapshots")
        return self._of_tenant("GET", tenant, "/snapshots", read)

    def snapshot(self, name: str, tenant: str = "default") -> Plan[results.Snapshot]:
        """Keep the state of a tenant."""
        read, body = results.Snapshot.from_json, {"name": name}
        return self._of_tenant("POST", tenant, "/snapshots", read, body)

    def _changed(self, tenant: str, verb: str, body: Json) -> Plan[results.Tenant]:
        """What a tenant is after a change."""
        return self._of_tenant("POST", tenant, f"/{verb}", results.Tenant.from_json, body)

    def _of_tenant(
        self, verb: str, tenant: str, path: str, read: Callable[[Any], T], *body: Json, **more: Any
    ) -> Plan[T]:
        whole = f"{self._path}/tenants/{quote(tenant, safe='')}{path}"
        return self._call(verb, whole, read, *body, **more)

    def _call(
        self,
        verb: str,
        path: str,
        read: Callable[[Any], T],
        body: Json | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
        tenant: str = "",
    ) -> Plan[T]:
        """Send one request, again where no answer came; its key tells the service that it is one.

        Args:
            verb: GET, POST or PUT.
            path: below the collections.
            read: from the answer's JSON to a value.
            body: what is sent as JSON.
            params: what follows the question mark.
            key: by which the service knows a call that is sent again; one is made unless given.
            tenant: by which a proxy finds the tenant's replica.
        """
        headers = {}
        if verb != "GET":
            headers["Idempotency-Key"] = key or uuid4().hex
        if tenant and tenant.isascii() and tenant.isprintable():
            headers["X-Queryshift-Tenant"] = tenant
        request: Request = {"method": verb, "url": f"/v1/collections{path}", "headers": headers}
        request |= {"json": body, "params": params}
        for tries in count(1):
            outcome = yield request
            if isinstance(outcome, httpx.Response):
                asked = outcome.headers.get("Retry-After")
                pause = self._retries.pause(tries, outcome.status_code, asked)
            else:
                pause = self._retries.pause(tries, None)
            if pause is None:
                break
            yield pause
        return self._result(read, outcome)

    def _result(self, read: Callable[[Any], T], outcome: Outcome | None) -> T:
        """What is read from the last outcome; raises what went wrong."""
        if not isinstance(outcome, httpx.Response):
            why = str(outcome) or type(outcome).__name__
            raise ServiceLost(
                f"{self._url} does not answer ({why}): is the service running?"
            ) from outcome
        try:
            data = outcome.json()
        except ValueError:
            data = None
        if outcome.is_error:
            raise failure(outcome.status_code, data)
        try:
            return read(data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, Error):
                raise
            raise ServiceLost(
                f"{self._url} answered with something that is not queryshift's: check the address, "
                "and what lies between."
            ) from error


def _list_of(read: Callable[[Json], T], name: str) -> Callable[[Json], list[T]]:
    return lambda data: [read(row) for row in data[name]]


def failure(status: int, problem: Any) -> Error:
    """The error that a problem of the service stands for.

    Args:
        status: of the answer.
        problem: its JSON, or None where it has none.

    Returns:
        An error with the service's own sentence, and the request's id as a note.

    Examples:
        >>> failure(404, {"detail": 'no tenant "bob".'})
        UnknownName('no tenant "bob".')
    """
    told = problem if isinstance(problem, dict) else {}
    sentence = told.get("detail") or f"the service answered with the status {status}."
    kind = ERRORS.get(status, BadInput if 400 <= status < 500 else ServiceLost)
    error = kind(str(sentence))
    error.add_note(f"status {status}, request {told.get('request_id', 'without an id')}")
    return error
