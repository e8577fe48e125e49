"""What the receiver counts, for Prometheus."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

KNOWN_EVENTS = ("extract_completed", "batch_completed", "crawl_completed")
_OTHER = "other"
_LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class _PerDelivery(Collector):
    """What is counted at every delivery, in one thread: the library's own counters lock at each count."""

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.events = dict.fromkeys((*KNOWN_EVENTS, _OTHER), 0)
        self.latencies = [0] * (len(_LATENCIES) + 1)
        self.seconds = 0.0

    def collect(self) -> Iterator[Metric]:
        yield _counts(
            "scraper_receiver_deliveries",
            "Deliveries by how they were answered.",
            "outcome",
            self.outcomes,
        )
        yield _counts(
            "scraper_receiver_events",
            "Verified deliveries with a job id, by event type; unknown types count as other.",
            "event_type",
            self.events,
        )
        latency = HistogramMetricFamily(
            "scraper_receiver_latency_seconds", "From a delivery's headers to its answer."
        )
        bounds = [*map(str, _LATENCIES), "+Inf"]
        latency.add_metric([], list(zip(bounds, accumulate(self.latencies), strict=True)), self.seconds)
        yield latency


def _counts(name: str, documentation: str, label: str, counts: dict[str, int]) -> Metric:
    family = CounterMetricFamily(name, documentation, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family


class ReceiverMetrics:
    """One registry for each receiver, so that two in a process don't share their counts.

    Deliveries are counted in the event loop's thread only, batches in any.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counts = _PerDelivery()
        self._registry.register(self._counts)
        self._batch_size = Histogram(
            "scraper_receiver_batch_size",
            "Deliveries in one commit.",
            buckets=_BATCH_SIZES,
            registry=self._registry,
        )
        self._waiting = Gauge(
            "scraper_receiver_waiting", "Deliveries that wait for their commit.", registry=self._registry
        )

    def prepare(self, outcomes: list[str]) -> None:
        """Show these outcomes from the start, at zero."""
        self._counts.outcomes.update(dict.fromkeys(outcomes, 0))

    def count_answer(self, outcome: str, seconds: float) -> None:
        counts = self._counts
        counts.outcomes[outcome] += 1
        counts.latencies[bisect_left(_LATENCIES, seconds)] += 1
        counts.seconds += seconds

    def count_event(self, event_type: str | None) -> None:
        events = self._counts.events
        events[event_type if event_type in events and event_type is not None else _OTHER] += 1

    def count_batch(self, size: int) -> None:
        self._batch_size.observe(size)

    def watch_waiting(self, count: Callable[[], float]) -> None:
        self._waiting.set_function(count)

    def exposition(self) -> bytes:
        return generate_latest(self._registry)
