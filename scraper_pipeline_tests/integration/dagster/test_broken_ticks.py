"""A tick that ends at any of its statements: what was to be done is still asked for, and a failure is a failed tick."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from scraper_pipeline.sensors import delivery_log_sensor
from scraper_pipeline_tests.integration.dagster.driving import DAY, NEXT_DAY, Pipeline, on_sqlite
from scraper_pipeline_tests.integration.ledger.driving import Interrupted

MOST_STATEMENTS = 200
SETTLE, SUBMIT = ("settle_jobs", DAY), ("submit_jobs", NEXT_DAY)


@contextmanager
def raising_at(nth: int, error: Exception) -> Iterator[list[str]]:
    """Raise in place of the nth statement of whatever engine; the list tells how many there were."""
    seen: list[str] = []

    def look(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        seen.append(statement)
        if len(seen) == nth:
            raise error

    event.listen(Engine, "before_cursor_execute", look)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", look)


@pytest.fixture
def busy(pipeline: Pipeline) -> Pipeline:
    """A day with news to settle, another with targets to submit, and looks that are due."""
    pipeline.ask_for("pages/1", "pages/2", "pages/3")
    assert pipeline.submit().success
    assert pipeline.submit_at_most(0, NEXT_DAY).success
    pipeline.bring_news()
    return pipeline


def _make_due_again(pipeline: Pipeline) -> None:
    pipeline.end_request_leases()
    pipeline.execute("UPDATE jobs SET next_look_at = accepted_at")


@on_sqlite
def test_a_tick_that_is_killed_at_any_statement_loses_and_doubles_nothing(busy: Pipeline) -> None:
    posts = busy.posts()
    for nth in range(1, MOST_STATEMENTS):
        _make_due_again(busy)
        try:
            with raising_at(nth, Interrupted()):
                busy.tick()
            break
        except Interrupted:
            assert busy.ledger.audit.check() == []
        _make_due_again(busy)
        assert busy.asked() == {SETTLE, SUBMIT}, f"after a tick that was killed at statement {nth}"
    assert 20 < nth < MOST_STATEMENTS - 1
    assert busy.posts() == posts
    _make_due_again(busy)
    assert busy.settle().success
    busy.complete(NEXT_DAY)
    assert busy.is_green()
    assert busy.posts() == 6
    assert busy.audit() == []


@on_sqlite
def test_a_database_that_fails_at_any_statement_is_a_failed_tick_and_never_a_skip(busy: Pipeline) -> None:
    said: list[str] = []
    for nth in range(1, MOST_STATEMENTS):
        _make_due_again(busy)
        outage = OperationalError("SELECT", {}, Exception("the server closed the connection"))
        with raising_at(nth, outage) as seen:
            try:
                busy.tick()
            except dg.Failure as failure:
                said.append(str(failure.description))
        if len(seen) < nth:
            break
        assert len(said) == nth, f"the tick that failed at statement {nth} did not say so"
    assert 20 < nth < MOST_STATEMENTS - 1
    assert [message for message in said if "the server closed the connection" not in message] == []


@on_sqlite
def test_a_ledger_that_can_not_be_reached_fails_the_ticks_of_both_sensors(
    busy: Pipeline, refusing_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = refusing_host.removeprefix("http://")
    monkeypatch.setenv("SCRAPER_LEDGER_URL", f"postgresql+psycopg://user:hush@{server}/ledger")
    with pytest.raises(dg.Failure, match="can't be opened") as raised:
        busy.tick()
    assert "hush" not in str(raised.value.description)
    resources = {name: (busy.definitions.resources or {})[name] for name in ("ledger", "scraper")}
    context = dg.build_sensor_context(instance=busy.instance, resources=resources)
    with pytest.raises(dg.Failure, match="can't be opened"):
        delivery_log_sensor(context)
