"""The root of each trace: the step of a run, or the tick of a sensor."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from scraper_pipeline.settings import load_settings
from scraper_pipeline.traces import TracingError, flushed_span, span, start_tracing


@contextmanager
def traced_step(context: dg.OpExecutionContext | dg.AssetExecutionContext, step: str) -> Iterator[None]:
    """The span of a step, with its run, its job and its day; does nothing unless SCRAPER_TRACES is set."""
    if not _is_on():
        yield
        return
    run = context.run
    day = run.tags.get("dagster/partition", "")
    with flushed_span(f"step {step}", run_id=run.run_id, job_name=run.job_name, partition_key=day):
        yield


@contextmanager
def traced_tick(sensor: str) -> Iterator[None]:
    """The span of a sensor's tick; the process goes on, and sends it in its own time."""
    if not _is_on():
        yield
        return
    with span(f"tick {sensor}"):
        yield


def _is_on() -> bool:
    """Whether traces were asked for, in which case they are sent from here on. Raises dagster.Failure."""
    if load_settings().traces == "off":
        return False
    try:
        start_tracing()
    except TracingError as error:
        raise dg.Failure(str(error)) from None
    return True
