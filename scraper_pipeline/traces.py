"""Traces by option: what a run, a tick or a receiver did when, and how long the service and the database took.

The rooms make their spans with OpenTelemetry's API alone, which does nothing until ``start_tracing`` was called. A
span has ids, counts, times and kinds of errors, and never a URL of a target, the content of a page or a secret.
"""

import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from opentelemetry import trace

P = ParamSpec("P")
R = TypeVar("R")

_COLLECTOR_SECONDS = 3  # a run waits that long at its end for a collector that is away
_OWN_NAME = "scraper-pipeline"


class TracingError(Exception):
    """Traces were asked for, and what sends them is not installed."""


def start_tracing() -> None:
    """Send this process's spans by OTLP over HTTP, configured by OpenTelemetry's own variables; once is enough.

    Raises TracingError where the extra ``traces`` is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise TracingError(
            "SCRAPER_TRACES=otlp needs the extra `traces`: pip install 'scraper-pipeline[traces]'"
        ) from None
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: _OWN_NAME}
    timeout = None if os.environ.get("OTEL_EXPORTER_OTLP_TIMEOUT") else _COLLECTOR_SECONDS
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=timeout)))
    trace.set_tracer_provider(provider)


@contextmanager
def span(name: str, **attributes: str | int) -> Iterator[trace.Span]:
    """A span around a block; of an error that leaves the block it has the kind, and neither the text nor the stack."""
    with trace.get_tracer(_OWN_NAME).start_as_current_span(
        name,
        attributes={f"scraper.{key}": value for key, value in attributes.items()},
        record_exception=False,
        set_status_on_exception=False,
    ) as this:
        try:
            yield this
        except Exception as error:  # of whatever kind: it is only told, and raised again
            this.set_status(trace.StatusCode.ERROR)
            this.set_attribute("error.type", type(error).__name__)
            raise


def traced(name: str) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Callable[P, Coroutine[Any, Any, R]]]:
    """Give each call of an async function a span, with the whole numbers of the report that it returns, if any."""

    def of(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        @wraps(function)
        async def within(*args: P.args, **kwargs: P.kwargs) -> R:
            with span(name) as this:
                returned = await function(*args, **kwargs)
                counts = vars(returned) if is_dataclass(returned) else {}
                this.set_attributes(
                    {f"scraper.{key}": count for key, count in counts.items() if isinstance(count, int)}
                )
                return returned

        return within

    return of


@contextmanager
def flushed_span(name: str, **attributes: str | int) -> Iterator[trace.Span]:
    """The span of the last that a process does, as a run of Dagster is: what was not sent yet is sent at its end."""
    try:
        with span(name, **attributes) as this:
            yield this
    finally:
        flush = getattr(trace.get_tracer_provider(), "force_flush", None)
        if flush is not None:
            flush(_COLLECTOR_SECONDS * 1000)
