"""`Client`: calls that wait for their answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from . import calls
from .calls import Ask
from .queries import Query
from .results import (
    ClickMeans,
    Collection,
    HistoryRow,
    Id,
    SearchResult,
    Snapshot,
    Tenant,
    TenantSummary,
)
from .retries import Retries
from .transport import Connection, Transport


class Client:
    """Searches one collection of a service, and looks after its tenants.

    A call that gets no answer, a full queue or a failing service is sent again after growing
    pauses. It has the same key then, so that the service answers it once and learns from it once.

    Args:
        url: where the service is, such as "http://127.0.0.1:8000".
        collection: the collection that is searched.
        token: sent as a bearer token, where the service wants one.
        timeout: seconds for one try.
        retries: how often a call is sent again, or how often and how patiently.

    Examples:
        >>> client = Client(url, "tangram")
        >>> client.collection().queries
        'image'
        >>> found = client.search([picture], k=3, tenant="alice")
        >>> len(found.ids[0]), client.tenant("alice").queries
        (3, 1)
        >>> client.close()
    """

    def __init__(
        self,
        url: str,
        collection: str,
        token: str | None = None,
        timeout: float = 30.0,
        retries: int | Retries = 4,
    ) -> None:
        patience = Retries(retries) if isinstance(retries, int) else retries
        self._name = collection
        self._transport = Transport(Connection(url, token, timeout, patience))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the service."""
        self._transport.close()

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
    ) -> SearchResult:
        """The best candidates for each query.

        Args:
            queries: texts, pictures and sounds (bytes, `pathlib.Path`, PIL images), vectors, or
                mappings of these for composed queries. A text is never opened as a path.
            k: how many candidates for each.
            tenant: for whom.
            adapt: whether the tenant's session learns from them.
            compare: whether both the source's and the adapted answers are given.
            exclude: for each query the ids that must not be found.
            key: by which the service knows a search that is sent again; one is made unless given.

        Returns:
            One result for each query.

        Examples:
            >>> with Client(url, "tangram") as client:
            ...     found = client.search([picture, picture], k=2, adapt=False)
            >>> [len(ids) for ids in found.ids]
            [2, 2]
        """
        ask = Ask(tenant, k, adapt, compare, exclude)
        return self._transport.send(calls.search(self._name, queries, ask, key))

    def feedback(
        self, request_id: str, clicks: Mapping[int, Sequence[Id]], *, tenant: str = "default"
    ) -> ClickMeans:
        """Tell which hits of a search were clicked: source and adapted answers are scored by it.

        Args:
            request_id: of the search's result.
            clicks: from a query's place in the search to the ids clicked.
            tenant: who searched.

        Returns:
            Mean reciprocal ranks of all clicks so far.
        """
        return self._transport.send(calls.feedback(self._name, tenant, request_id, clicks))

    def collections(self) -> list[Collection]:
        """All collections of the service.

        Returns:
            One value for each.
        """
        return self._transport.send(calls.collections())

    def collection(self) -> Collection:
        """The collection that this client searches.

        Returns:
            What its queries are, how many candidates it has, how its tenants adapt.
        """
        return self._transport.send(calls.collection(self._name))

    def ordinary(self, queries: Sequence[Query]) -> int:
        """Hand over a sample of queries from when all was well; others are measured against it.

        Args:
            queries: as in `search`; the service replaces the sample it had.

        Returns:
            How many the service took.
        """
        return self._transport.send(calls.ordinary(self._name, queries))

    def tenants(self) -> list[TenantSummary]:
        """All tenants of the collection.

        Returns:
            Name, mode, number of queries and last request of each.
        """
        rows, after = self._transport.send(calls.tenants(self._name, None))
        while after is not None:
            more, after = self._transport.send(calls.tenants(self._name, after))
            rows += more
        return rows

    def tenant(self, tenant: str = "default") -> Tenant:
        """What a tenant's session did so far, and how its queries lie.

        Args:
            tenant: its name.

        Returns:
            Counts, measures, guard events and snapshots.
        """
        return self._transport.send(calls.tenant(self._name, tenant))

    def history(self, tenant: str = "default", since: int = 0) -> list[HistoryRow]:
        """The measures of a tenant's batches.

        Args:
            tenant: its name.
            since: the number of the batch after which to begin.

        Returns:
            One row for each batch the service still keeps, oldest first.
        """
        rows: list[HistoryRow] = []
        while more := self._transport.send(calls.history(self._name, tenant, since)):
            rows, since = rows + more, more[-1].batch
        return rows

    def set_mode(self, mode: str, tenant: str = "default") -> Tenant:
        """Change who answers.

        Args:
            mode: "live": adapted answers; "shadow": the source answers and the session learns
                beside it; "frozen": the source answers and nothing is learnt.
            tenant: whose mode.

        Returns:
            The tenant in the new mode.
        """
        return self._transport.send(calls.change(self._name, tenant, "mode", {"mode": mode}))

    def reset(self, tenant: str = "default") -> Tenant:
        """Give up all that was learnt.

        Args:
            tenant: whose session.

        Returns:
            The tenant after it.
        """
        return self._transport.send(calls.change(self._name, tenant, "reset"))

    def undo(self, tenant: str = "default") -> Tenant:
        """Take back the last update.

        Args:
            tenant: whose session.

        Returns:
            The tenant after it.
        """
        return self._transport.send(calls.change(self._name, tenant, "undo"))

    def snapshot(self, name: str, tenant: str = "default") -> Snapshot:
        """Keep the present state under a name; it is on disk when this returns.

        Args:
            name: by which it is rolled back to.
            tenant: whose state.

        Returns:
            The snapshot.
        """
        return self._transport.send(calls.snapshot(self._name, tenant, name))

    def snapshots(self, tenant: str = "default") -> list[Snapshot]:
        """The kept states of a tenant.

        Args:
            tenant: its name.

        Returns:
            One value for each.
        """
        return self._transport.send(calls.snapshots(self._name, tenant))

    def rollback(self, name: str, tenant: str = "default") -> Tenant:
        """Put a kept state in force.

        Args:
            name: of the snapshot.
            tenant: whose state.

        Returns:
            The tenant after it.

        Examples:
            >>> with Client(url, "tangram") as client:
            ...     _ = client.search([picture], tenant="bob")
            ...     kept = client.snapshot("before", "bob")
            ...     _ = client.search([picture], tenant="bob")
            ...     client.rollback("before", "bob").batches == kept.batches
            True
        """
        return self._transport.send(calls.change(self._name, tenant, "rollback", {"name": name}))
