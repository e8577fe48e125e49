"""The sensor decides from the ledger alone: its cursor, its past ticks and Dagster's run status are not believed."""

import json
import time

import dagster as dg
import pytest

from scraper_pipeline import run_requests, sensors
from scraper_pipeline.ledger import Channel
from scraper_pipeline.lifecycle import SETTLE_LEASE, SUBMIT_LEASE, Settlement
from scraper_pipeline.resources import ScraperResource
from scraper_pipeline_tests.integration.dagster.driving import (
    DAY,
    GET,
    LIST,
    NEXT_DAY,
    Pipeline,
    materialised,
    metadata_of,
    on_sqlite,
)

SETTLE, SUBMIT = "settle_jobs", "submit_jobs"


def _run_keys(result: dg.SensorResult) -> list[str | None]:
    return [request.run_key for request in result.run_requests or []]


@pytest.fixture
def planned(pipeline: Pipeline) -> Pipeline:
    """Three targets of a day that are planned and not submitted."""
    pipeline.ask_for("pages/1", "pages/2", "pages/3")
    assert pipeline.submit_at_most(0).success
    assert pipeline.progress().planned == 3
    return pipeline


@pytest.fixture
def with_news(pipeline: Pipeline) -> Pipeline:
    """Three jobs of a day that have ended, which is known and not settled."""
    pipeline.ask_for("pages/1", "pages/2", "pages/3")
    assert pipeline.submit().success
    pipeline.bring_news()
    return pipeline


@on_sqlite
def test_planned_targets_are_asked_to_be_submitted(planned: Pipeline) -> None:
    assert planned.asked() == {(SUBMIT, DAY)}


def test_news_is_asked_to_be_settled(with_news: Pipeline) -> None:
    assert with_news.asked() == {(SETTLE, DAY)}


def test_jobs_that_have_ended_are_found_by_listing_and_without_fetching_their_content(
    pipeline: Pipeline,
) -> None:
    pipeline.ask_for(*(f"pages/{number}" for number in range(1, 21)))
    pipeline.submit()
    pipeline.execute("UPDATE jobs SET next_look_at = accepted_at")
    _until_ended(pipeline)

    assert pipeline.asked() == {(SETTLE, DAY)}
    assert pipeline.sandbox.requests()[LIST] == 1, "one page of the listing has them all"
    assert GET not in pipeline.sandbox.requests()


def _until_ended(pipeline: Pipeline) -> None:
    end = time.monotonic() + 60
    while any(job["status"] != "completed" for job in pipeline.jobs()):
        assert time.monotonic() < end
        time.sleep(0.02)


@on_sqlite
def test_work_that_was_asked_for_is_not_asked_for_again_while_its_run_may_be_starting(
    with_news: Pipeline,
) -> None:
    first = with_news.tick()
    assert len(_run_keys(first)) == 1
    assert _run_keys(with_news.tick(first.cursor)) == []


@on_sqlite
def test_no_settle_run_is_asked_for_while_another_has_a_heartbeat(with_news: Pipeline) -> None:
    with_news.ledger.leases.take(SETTLE_LEASE, DAY, "a run", 60)
    assert with_news.asked() == set()
    with_news.ledger.leases.drop(SETTLE_LEASE, DAY, "a run")
    assert with_news.asked() == {(SETTLE, DAY)}


@on_sqlite
def test_no_submit_run_is_asked_for_while_another_has_a_heartbeat(planned: Pipeline) -> None:
    planned.ledger.leases.take(SUBMIT_LEASE, DAY, "a run", 60)
    assert planned.asked() == set()
    planned.ledger.leases.drop(SUBMIT_LEASE, DAY, "a run")
    assert planned.asked() == {(SUBMIT, DAY)}


@on_sqlite
def test_work_whose_run_failed_is_asked_for_again_under_another_key(
    with_news: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_requests, "BUCKET_SECONDS", 1e12)  # no time goes by
    (first,) = _run_keys(with_news.tick())
    with_news.end_request_leases()
    (same,) = _run_keys(with_news.tick())
    with_news.end_request_leases()
    monkeypatch.setattr(run_requests, "BUCKET_SECONDS", 1e-4)  # as if time had gone by
    (another,) = _run_keys(with_news.tick())
    assert first == same, "Dagster drops a request whose key it has seen"
    assert another != first


@on_sqlite
def test_new_work_is_asked_for_under_another_key_at_once(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_requests, "BUCKET_SECONDS", 1e12)  # time has no part in it
    pipeline.ask_for("pages/1", "pages/2")
    pipeline.submit()
    _until_ended(pipeline)
    keys = []
    for job in pipeline.jobs():
        pipeline.ledger.news.record([job["job_id"]], Channel.POLL)
        pipeline.end_request_leases()
        keys += _run_keys(pipeline.tick())
    assert len(set(keys)) == 2


@on_sqlite
def test_a_run_key_is_short_however_much_there_is_to_do(pipeline: Pipeline) -> None:
    pipeline.ask_for(*(f"pages/{number}?{'x' * 2000}" for number in range(1, 51)))
    pipeline.submit()
    pipeline.bring_news()
    (key,) = _run_keys(pipeline.tick())
    assert key is not None
    assert len(key) < 64


GARBAGE = [
    "",
    "garbage",
    "{",
    "null",
    "[]",
    "7",
    '{"settle_jobs": null}',
    '{"settle_jobs": [1]}',
    '{"settle_jobs": {"2026-01-05": "many"}}',
    '{"settle_jobs": {"2026-01-05": null}, "submit_jobs": 3}',
    '{"settle_jobs": {"2026-01-05": 99999999}}',
]


@on_sqlite
def test_an_unreadable_cursor_doubles_nothing(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1")
    pipeline.complete()
    good = pipeline.tick().cursor
    requests = pipeline.requests()
    for cursor in GARBAGE:
        result = pipeline.tick(cursor)
        assert _run_keys(result) == [], cursor
        assert result.cursor == good, cursor
    assert pipeline.requests() == requests


@on_sqlite
def test_an_unreadable_cursor_loses_nothing(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1")
    pipeline.complete(NEXT_DAY)
    pipeline.submit()
    pipeline.bring_news()
    for cursor in GARBAGE:
        assert pipeline.asked(cursor) == {(SETTLE, DAY)}, cursor
        pipeline.end_request_leases()


@on_sqlite
def test_a_tick_that_is_killed_before_its_requests_arrive_is_made_up_for(with_news: Pipeline) -> None:
    with_news.tick()  # and nobody ever sees its result
    with_news.end_request_leases()
    assert with_news.asked() == {(SETTLE, DAY)}


@on_sqlite
def test_a_day_that_is_settled_in_the_ledger_and_was_never_green_is_asked_for(with_news: Pipeline) -> None:
    _settle_with_a_run_that_is_killed_at_its_end(with_news)
    assert with_news.progress().is_settled
    assert not with_news.is_green()

    asked = with_news.tick()
    assert [(one.job_name, one.partition_key) for one in asked.run_requests or []] == [(SETTLE, DAY)]
    run = with_news.settle()
    assert run.success
    assert ("stored_results", DAY) in materialised(run)
    assert with_news.is_green()

    with_news.end_request_leases()
    assert with_news.asked(asked.cursor) == set()
    assert with_news.audit() == []


@on_sqlite
def test_a_day_that_is_accepted_and_whose_submission_was_never_green_is_asked_for(planned: Pipeline) -> None:
    planned.submit()
    assert planned.is_green() is False
    planned.instance.wipe_assets([dg.AssetKey("submitted_jobs")])  # as if the run had been killed at its end
    assert (SUBMIT, DAY) in planned.asked()
    posts = planned.posts()
    assert planned.submit().success
    assert planned.posts() == posts
    planned.end_request_leases()
    assert (SUBMIT, DAY) not in planned.asked()


@on_sqlite
def test_a_green_day_that_has_changed_since_is_shown_anew(with_news: Pipeline) -> None:
    with_news.settle()
    cursor = with_news.tick().cursor
    assert json.loads(cursor or "{}")[SETTLE].keys() == {DAY}
    with_news.ask_for("pages/1", "pages/2", "pages/3", "pages/4")
    with_news.submit()
    with_news.bring_news()
    _settle_with_a_run_that_is_killed_at_its_end(with_news)

    assert with_news.asked(cursor) == {(SETTLE, DAY)}
    assert metadata_of(with_news.settle())["stored_results", DAY]["stored"] == 4


def _settle_with_a_run_that_is_killed_at_its_end(pipeline: Pipeline) -> None:
    """The outcomes are committed; nothing of it has reached Dagster."""
    with ScraperResource().open() as accounts:
        own = accounts.first
        for chunk in Settlement(own.ledger, own.open_client, [DAY], own.policy()).outcomes():
            own.ledger.outcomes.commit(chunk)


@on_sqlite
def test_an_idle_ledger_makes_no_requests_and_needs_no_key(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEONODE_SCRAPER_API_KEY")
    assert pipeline.asked() == set()
    monkeypatch.setenv("GEONODE_SCRAPER_API_KEY", "key")
    pipeline.ask_for("pages/1", "broken/2")
    pipeline.complete()
    requests = pipeline.requests()

    monkeypatch.delenv("GEONODE_SCRAPER_API_KEY")
    for _ in range(3):
        assert pipeline.asked() == set()
    assert pipeline.requests() == requests


@pytest.mark.usefixtures("hasty_client")
@on_sqlite
def test_a_service_that_cannot_be_reached_is_a_failed_tick_and_never_a_skip(
    with_news: Pipeline, refusing_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEONODE_SCRAPER_HOST", refusing_host)
    with_news.execute("UPDATE jobs SET next_look_at = accepted_at")
    before = with_news.stored_state()
    with pytest.raises(dg.Failure, match="Nothing is lost"):
        with_news.tick()
    assert with_news.stored_state() == before
    monkeypatch.setenv("GEONODE_SCRAPER_HOST", with_news.sandbox.url)
    with_news.end_request_leases()
    assert with_news.asked() == {(SETTLE, DAY)}


@pytest.mark.usefixtures("hasty_client")
@pytest.mark.parametrize(
    "faults",
    [{"list_500": True}, {"unauthorized": True}, {"cut_before": True}],
    ids=lambda faults: next(iter(faults)),
)
@on_sqlite
def test_a_service_that_refuses_to_list_is_a_failed_tick(
    with_news: Pipeline, faults: dict[str, bool]
) -> None:
    with_news.execute("UPDATE jobs SET next_look_at = accepted_at")
    with_news.sandbox.set_faults(**faults)
    with pytest.raises(dg.Failure):
        with_news.tick()


@on_sqlite
def test_a_service_that_never_answers_fails_the_tick_well_before_dagsters_own_limit(
    with_news: Pipeline, silent_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sensors.LOOK_SECONDS <= 45, "a tick is cut off after 60 s"
    monkeypatch.setattr(sensors, "LOOK_SECONDS", 0.5)
    monkeypatch.setenv("GEONODE_SCRAPER_HOST", silent_host)
    with_news.execute("UPDATE jobs SET next_look_at = accepted_at")
    began = time.monotonic()
    with pytest.raises(dg.Failure, match="did not answer"):
        with_news.tick()
    assert time.monotonic() - began < 30


@on_sqlite
def test_without_a_key_a_tick_that_has_work_says_which_variable_is_missing(
    with_news: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEONODE_SCRAPER_API_KEY")
    with pytest.raises(dg.Failure, match="GEONODE_SCRAPER_API_KEY is not set"):
        with_news.tick()
