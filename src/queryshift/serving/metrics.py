"""What is counted for Prometheus; no label has values that clients choose."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
DELAYS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
OF = ("collection",)
SHIFT_SCORES = (-5, -3, -1, 0, 1, 3, 5, 10, 20, 50)


class Metrics:
    """The server's counters, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        measured = partial(Histogram, namespace="queryshift", registry=self.registry)
        gauge = partial(Gauge, namespace="queryshift", registry=self.registry)
        counted = partial(Counter, namespace="queryshift", registry=self.registry)
        by = ("route", "status")
        self.requests = measured("request_seconds", "Seconds per request.", by, buckets=SECONDS)
        self.batch_size = measured("batch_queries", "Queries per forward.", buckets=SIZES)
        self.forward_seconds = measured("forward_seconds", "Seconds per forward.", buckets=SECONDS)
        self.update_seconds = measured("update_seconds", "Seconds per group.", buckets=SECONDS)
        told = "Seconds from a group being complete until it was learnt."
        self.learning_delay = measured("learning_delay_seconds", told, buckets=DELAYS)
        self.shift_score = measured("shift_score", "Shift of a batch.", OF, buckets=SHIFT_SCORES)
        self.waiting = gauge("queries_waiting", "Queries that wait for an answer.")
        self.groups_waiting = gauge("groups_waiting", "Groups that wait to be learnt.")
        self.loaded = gauge("tenants_loaded", "Tenants in memory.", OF)
        self.known = gauge("tenants_known", "Tenants in memory or on disk.", OF)
        self.disk_trouble = gauge("disk_trouble", "1 while the disk cannot be written.")
        self.queries = counted("queries", "Queries answered.", ["collection", "mode"])
        self.updates = counted("updates", "Groups learnt.", OF)
        self.drops = counted("drops", "Groups given up since learning is behind.", OF)
        self.lost_updates = counted("lost_updates", "Groups lost to others.", OF)
        self.failed_updates = counted("failed_updates", "Groups that failed.", OF)
        self.guard_events = counted("guard_events", "What guards did.", ["collection", "event"])
        self.hangups = counted("hangups", "Clients that left before their answer.")
        self.refused = counted("refused", "Requests refused with 429.", ["reason"])
        self.loads = counted("tenant_loads", "Tenants read back from disk.", OF)
        self.evictions = counted("tenant_evictions", "Tenants sent to disk.", OF)
        self.saves = counted("saves", "States written.")
        self.failed_saves = counted("failed_saves", "States that could not be written.")

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)
