"""What is counted for Prometheus; no label has values that clients choose."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
DELAYS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
STRANGENESS = (-5, -3, -1, 0, 1, 3, 5, 10, 20, 50)


class Metrics:
    """The server's counters, in a registry of their own."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.requests = Histogram(
            "queryshift_request_seconds",
            "Seconds of a request, by route and status.",
            ["route", "status"],
            buckets=SECONDS,
            registry=registry,
        )
        self.batch_size = Histogram(
            "queryshift_batch_queries", "Queries per forward.", buckets=SIZES, registry=registry
        )
        self.forward_seconds = Histogram(
            "queryshift_forward_seconds", "Seconds per forward.", buckets=SECONDS, registry=registry
        )
        self.update_seconds = Histogram(
            "queryshift_update_seconds", "Seconds per group.", buckets=SECONDS, registry=registry
        )
        self.learning_delay = Histogram(
            "queryshift_learning_delay_seconds",
            "Seconds from a group being complete until it was learnt.",
            buckets=DELAYS,
            registry=registry,
        )
        self.strangeness = Histogram(
            "queryshift_strangeness",
            "Standard errors of batches from ordinary queries.",
            ["collection"],
            buckets=STRANGENESS,
            registry=registry,
        )
        self.waiting = self._gauge("queries_waiting", "Queries that wait for an answer.")
        self.groups_waiting = self._gauge("groups_waiting", "Groups that wait to be learnt.")
        self.loaded = self._gauge("tenants_loaded", "Tenants in memory.", "collection")
        self.known = self._gauge("tenants_known", "Tenants in memory or on disk.", "collection")
        self.disk_trouble = self._gauge("disk_trouble", "1 while the disk cannot be written.")
        self.queries = self._counter("queries", "Queries answered.", "collection", "mode")
        self.updates = self._counter("updates", "Groups learnt.", "collection")
        self.drops = self._counter(
            "drops", "Groups given up since learning is behind.", "collection"
        )
        self.lost_updates = self._counter("lost_updates", "Groups lost to others.", "collection")
        self.failed_updates = self._counter("failed_updates", "Groups that failed.", "collection")
        self.guard_events = self._counter("guard_events", "What guards did.", "collection", "event")
        self.hangups = self._counter("hangups", "Clients that left before their answer.")
        self.refused = self._counter("refused", "Requests refused with 429.", "reason")
        self.loads = self._counter("tenant_loads", "Tenants read back from disk.", "collection")
        self.evictions = self._counter("tenant_evictions", "Tenants sent to disk.", "collection")
        self.saves = self._counter("saves", "States written.")
        self.failed_saves = self._counter("failed_saves", "States that could not be written.")

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)

    def _gauge(self, name: str, told: str, *labels: str) -> Gauge:
        return Gauge(f"queryshift_{name}", told, labels, registry=self.registry)

    def _counter(self, name: str, told: str, *labels: str) -> Counter:
        return Counter(f"queryshift_{name}", told, labels, registry=self.registry)
