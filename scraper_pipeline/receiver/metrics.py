"""What the receiver counts, for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

KNOWN_EVENTS = ("extract_completed", "batch_completed", "crawl_completed")
_LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class ReceiverMetrics:
    """One registry for each receiver, so that two in a process don't share their counts."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._deliveries = Counter(
            "scraper_receiver_deliveries",
            "Deliveries by how they were answered.",
            ["outcome"],
            registry=self._registry,
        )
        self._events = Counter(
            "scraper_receiver_events",
            "Verified deliveries with a job id, by event type; unknown types count as other.",
            ["event_type"],
            registry=self._registry,
        )
        self._latency = Histogram(
            "scraper_receiver_latency_seconds",
            "From a delivery's headers to its answer.",
            buckets=_LATENCIES,
            registry=self._registry,
        )
        self._batch_size = Histogram(
            "scraper_receiver_batch_size",
            "Deliveries in one commit.",
            buckets=_BATCH_SIZES,
            registry=self._registry,
        )
        self._waiting = Gauge(
            "scraper_receiver_waiting", "Deliveries that wait for their commit.", registry=self._registry
        )
        self._of_type = {name: self._events.labels(name) for name in (*KNOWN_EVENTS, "other")}
        self._of_outcome: dict[str, Counter] = {}

    def prepare(self, outcomes: list[str]) -> None:
        """Show these outcomes from the start, at zero."""
        self._of_outcome.update({outcome: self._deliveries.labels(outcome) for outcome in outcomes})

    def count_answer(self, outcome: str, seconds: float) -> None:
        self._of_outcome[outcome].inc()
        self._latency.observe(seconds)

    def count_event(self, event_type: str | None) -> None:
        (self._of_type.get(event_type or "") or self._of_type["other"]).inc()

    def count_batch(self, size: int) -> None:
        self._batch_size.observe(size)

    def watch_waiting(self, count: Callable[[], float]) -> None:
        self._waiting.set_function(count)

    def exposition(self) -> bytes:
        return generate_latest(self._registry)
