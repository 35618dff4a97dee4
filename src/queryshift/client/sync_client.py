"""`Client`: calls that wait for their answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Self, cast

from . import results
from .core import Core, Outcome, Plan, Request, T, httpx
from .queries import Query
from .results import Id
from .retries import Retries


class Client:
    """Searches one collection of a service, and looks after its tenants.

    A call that gets no answer, a full queue or a failing service is sent again after growing
    pauses. It has the same key then, so that the service answers it once and learns from it once.

    Args:
        url: where the service is, such as "http://127.0.0.1:8080".
        collection: the collection that is searched.
        token: sent as a bearer token, where the service wants one.
        timeout: seconds for one try.
        retries: how often a call is sent again, or how often and how patiently.

    Examples:
        >>> client = Client(url, "tangram")
        >>> client.collection().queries
        'image'
        >>> found = client.search([image], k=3, tenant="alice")
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
        self._core = Core(url, collection, token, timeout, retries)
        self._http = httpx.Client(**self._core.options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the service."""
        self._http.close()

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
    ) -> results.SearchResult:
        """The best candidates for each query.

        Args:
            queries: texts, images and audio (bytes, `pathlib.Path`, PIL images), vectors, or
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
            ...     found = client.search([image, image], k=2, adapt=False)
            >>> [len(ids) for ids in found.ids]
            [2, 2]
        """
        plan = self._core.search(
            queries, k, tenant=tenant, adapt=adapt, compare=compare, exclude=exclude, key=key
        )
        return self._result(plan)

    def feedback(
        self, request_id: str, clicks: Mapping[int, Sequence[Id]], *, tenant: str = "default"
    ) -> results.ClickMeans:
        """Tell which hits of a search were clicked: source and adapted answers are scored by it.

        Args:
            request_id: of the search's result.
            clicks: from a query's place in the search to the ids clicked.
            tenant: who searched.

        Returns:
            Mean reciprocal ranks of all clicks so far.
        """
        return self._result(self._core.feedback(request_id, clicks, tenant=tenant))

    def collections(self) -> list[results.Collection]:
        """All collections of the service.

        Returns:
            One value for each.
        """
        return self._result(self._core.collections())

    def collection(self) -> results.Collection:
        """The collection that this client searches.

        Returns:
            What its queries are, how many candidates it has, how its tenants adapt.
        """
        return self._result(self._core.collection())

    def set_reference(self, queries: Sequence[Query]) -> int:
        """Hand over reference queries, from when all was well; others are compared with them.

        Args:
            queries: as in `search`; the service replaces the sample it had.

        Returns:
            How many the service took.
        """
        return self._result(self._core.set_reference(queries))

    def tenants(self) -> list[results.TenantSummary]:
        """All tenants of the collection.

        Returns:
            Name, mode, number of queries and last request of each.
        """
        return self._result(self._core.tenants())

    def tenant(self, tenant: str = "default") -> results.Tenant:
        """What a tenant's session did so far, and how its queries lie.

        Args:
            tenant: its name.

        Returns:
            Counts, measures, guard events and snapshots.
        """
        return self._result(self._core.tenant(tenant))

    def history(self, tenant: str = "default", since: int = 0) -> list[results.HistoryRow]:
        """The measures of a tenant's batches.

        Args:
            tenant: its name.
            since: the number of the batch after which to begin.

        Returns:
            One row for each batch the service still keeps, oldest first.
        """
        return self._result(self._core.history(tenant, since))

    def set_mode(self, mode: str, tenant: str = "default") -> results.Tenant:
        """Change who answers.

        Args:
            mode: "live": adapted answers; "shadow": the source answers and the session learns
                beside it; "frozen": the source answers and nothing is learnt.
            tenant: whose mode.

        Returns:
            The tenant in the new mode.
        """
        return self._result(self._core.set_mode(mode, tenant))

    def reset(self, tenant: str = "default") -> results.Tenant:
        """Give up all that was learnt.

        Args:
            tenant: whose session.

        Returns:
            The tenant after it.
        """
        return self._result(self._core.reset(tenant))

    def undo(self, tenant: str = "default") -> results.Tenant:
        """Take back the last update.

        Args:
            tenant: whose session.

        Returns:
            The tenant after it.
        """
        return self._result(self._core.undo(tenant))

    def snapshot(self, name: str, tenant: str = "default") -> results.Snapshot:
        """Keep the present state under a name; it is on disk when this returns.

        Args:
            name: by which it is rolled back to.
            tenant: whose state.

        Returns:
            The snapshot.
        """
        return self._result(self._core.snapshot(name, tenant))

    def snapshots(self, tenant: str = "default") -> list[results.Snapshot]:
        """The kept states of a tenant.

        Args:
            tenant: its name.

        Returns:
            One value for each.
        """
        return self._result(self._core.snapshots(tenant))

    def rollback(self, name: str, tenant: str = "default") -> results.Tenant:
        """Put a kept state in force.

        Args:
            name: of the snapshot.
            tenant: whose state.

        Returns:
            The tenant after it.

        Examples:
            >>> with Client(url, "tangram") as client:
            ...     _ = client.search([image], tenant="bob")
            ...     kept = client.snapshot("before", "bob")
            ...     _ = client.search([image], tenant="bob")
            ...     client.rollback("before", "bob").batches == kept.batches
            True
        """
        return self._result(self._core.rollback(name, tenant))

    def _result(self, plan: Plan[T]) -> T:
        """Carry a plan out: send what it yields, wait as long as it says."""
        outcome: Outcome | None = None
        while True:
            try:
                step = plan.send(outcome)
            except StopIteration as end:
                return cast(T, end.value)
            if isinstance(step, float):
                time.sleep(step)
            else:
                outcome = self._send(step)

    def _send(self, request: Request) -> Outcome:
        try:
            return self._http.request(**request)
        except httpx.TransportError as error:
            return error
