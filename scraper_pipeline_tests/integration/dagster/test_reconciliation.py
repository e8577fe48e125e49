"""The sweep in Dagster: with everything else switched off it brings days to green, and it says what it found."""

import asyncio
import time
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import select

from scraper_pipeline.ledger.schema import results, submissions
from scraper_pipeline.schedules import reconciliation_schedule
from scraper_pipeline.scraper_api import ScraperClient
from scraper_pipeline_tests.integration.dagster.driving import (
    DAY,
    NEXT_DAY,
    SETTLED_BY_DAY,
    Pipeline,
    checks_of,
    failures_of,
    materialised,
    metadata_of,
    on_sqlite,
    wait_for,
)
from scraper_pipeline_tests.integration.ledger.driving import rows

TERMINAL = ("completed", "failed", "cancelled")


@pytest.fixture(autouse=True)
def _sweeps_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPER_SWEEP_AFTER_SECONDS", "0.001")


def _sweep(pipeline: Pipeline) -> dg.ExecuteInProcessResult:
    wait_for(lambda: all(job["status"] in TERMINAL for job in pipeline.jobs()))
    run = pipeline.run("reconcile_jobs", None)
    assert run.success, failures_of(run)
    return run


def _figures(run: dg.ExecuteInProcessResult) -> dict[str, Any]:
    return metadata_of(run)["reconciliation", None]


def _submit_elsewhere(pipeline: Pipeline, count: int) -> None:
    """What another program does with the same key."""

    async def submit() -> None:
        async with ScraperClient(host=pipeline.sandbox.url, api_key="key-of-both-programs") as client:
            for number in range(count):
                await client.submit_extract(f"{pipeline.sandbox.url}/site/pages/{500 + number}")

    asyncio.run(submit())


def _tick(pipeline: Pipeline, instance: dg.DagsterInstance) -> dg.RunRequest | dg.SkipReason:
    resources = {"ledger": (pipeline.definitions.resources or {})["ledger"]}
    answer = reconciliation_schedule(dg.build_schedule_context(instance=instance, resources=resources))
    assert isinstance(answer, dg.RunRequest | dg.SkipReason)
    return answer


def test_the_sweep_alone_stores_everything_and_turns_the_days_green(pipeline: Pipeline) -> None:
    """Neither sensors nor webhooks: failures that may pass are tried again, too."""
    pipeline.ask_for(*(f"pages/{number}" for number in range(1, 11)), "flaky/1", "missing")
    pipeline.sandbox.set_faults(job_failed={"url_contains": "/pages/3", "count": 1})
    for day in (DAY, NEXT_DAY):
        assert pipeline.submit(day).success
    for _ in range(12):
        run = _sweep(pipeline)
        if pipeline.is_green(DAY) and pipeline.is_green(NEXT_DAY):
            break
        time.sleep(1)  # until the next attempts are due
    assert {(asset, day) for asset in SETTLED_BY_DAY for day in (DAY, NEXT_DAY)} & materialised(run)
    for day in (DAY, NEXT_DAY):
        progress = pipeline.progress(day)
        assert (progress.in_flight, progress.stored + progress.dead) == (0, 12)
        assert progress.stored >= 10
    assert pipeline.audit() == []
    posts = pipeline.posts()
    run = _sweep(pipeline)
    assert materialised(run) == {("reconciliation", None)}
    assert pipeline.posts() == posts
    assert _figures(run)["ended"] == 0


@on_sqlite
def test_what_was_found_is_shown_in_numbers_by_kind(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1", "pages/2", "pages/3")
    pipeline.sandbox.set_faults(never_finish={"url_contains": "/pages/3"})
    pipeline.submit()
    _submit_elsewhere(pipeline, 200)
    wait_for(lambda: sum(job["status"] in TERMINAL for job in pipeline.jobs()) == 202)
    posts = pipeline.posts()

    run = pipeline.run("reconcile_jobs", None)

    figures = _figures(run)
    assert (figures["ended"], figures["foreign"], figures["adopted"], figures["listed"]) == (2, 200, 0, 203)
    assert figures["oldest_unsettled_seconds"] > 0
    numbers = {name: value for name, value in figures.items() if isinstance(value, int | float)}
    assert {"stale", "missing", "overdue", "unbound_news", "requests", "is_whole", "answers_bound"} <= set(
        numbers
    )
    [offender] = figures["offenders"].records
    assert offender.data["url"].endswith("/pages/3")
    assert len(figures["foreign_jobs"].records) == 50
    assert checks_of(run) == {"nothing_is_overdue": True, "done_in_time": True}
    assert (pipeline.posts(), pipeline.count(submissions), pipeline.count(results)) == (posts, 3, 2)


@on_sqlite
def test_a_job_that_stays_unsettled_for_too_long_fails_the_check(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.ask_for("pages/1")
    pipeline.sandbox.set_faults(never_finish=True)
    pipeline.submit()
    monkeypatch.setenv("SCRAPER_UNSETTLED_ALERT_SECONDS", "0.001")
    run = pipeline.run("reconcile_jobs", None)
    assert checks_of(run) == {"nothing_is_overdue": False, "done_in_time": True}


@on_sqlite
def test_other_programs_jobs_are_stored_when_that_is_configured(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.ask_for("pages/1")
    pipeline.submit()
    _submit_elsewhere(pipeline, 3)
    monkeypatch.setenv("SCRAPER_ADOPT_JOBS", "true")
    assert _figures(_sweep(pipeline))["adopted"] == 3
    _sweep(pipeline)
    adopted = [row for row in rows(pipeline.ledger, select(submissions)) if row.labels.get("adopted")]
    assert {row.state for row in adopted} == {"stored"}
    assert {row.partition_key for row in adopted} == {pipeline.ledger.clock().strftime("%Y-%m-%d")}


@on_sqlite
def test_an_outage_fails_the_sweep_and_is_no_empty_list(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1")
    pipeline.submit()
    pipeline.sandbox.set_faults(unauthorized=True)
    run = pipeline.run("reconcile_jobs", None)
    assert not run.success
    [said] = failures_of(run)
    assert "GEONODE_SCRAPER_API_KEY" in said


@on_sqlite
def test_a_day_that_a_settle_run_works_on_is_left_to_it(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1")
    pipeline.submit()
    pipeline.ledger.leases.take("settle", DAY, "a run", 60.0)
    _sweep(pipeline)
    assert pipeline.progress().accepted == 1
    pipeline.end_request_leases()
    _sweep(pipeline)
    assert pipeline.progress().stored == 1


@on_sqlite
def test_the_schedule_asks_for_sweeps_once_something_was_planned(pipeline: Pipeline) -> None:
    assert reconciliation_schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    assert reconciliation_schedule.cron_schedule == "*/10 * * * *"
    with dg.instance_for_test() as instance:
        assert isinstance(_tick(pipeline, instance), dg.SkipReason)
        pipeline.ask_for("pages/1")
        pipeline.submit()
        assert isinstance(_tick(pipeline, instance), dg.RunRequest)
        instance.create_run_for_job(pipeline.definitions.resolve_job_def("reconcile_jobs"))
        assert isinstance(_tick(pipeline, instance), dg.SkipReason)
