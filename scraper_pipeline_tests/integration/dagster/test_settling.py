"""Green means done: what settle runs materialise, and what they leave alone."""

import threading
from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest

from scraper_pipeline.assets import ASSETS, CHECKS
from scraper_pipeline.definitions import defs
from scraper_pipeline.jobs import settle_jobs, submit_jobs
from scraper_pipeline.ledger.schema import dead_letters, processed_events, results
from scraper_pipeline_tests.integration.dagster.driving import (
    DAY,
    GET,
    NEXT_DAY,
    POST,
    SETTLED_BY_DAY,
    THIRD_DAY,
    THREE_DAYS,
    Pipeline,
    events_of,
    materialised,
    metadata_of,
    observed,
    on_sqlite,
)

TWENTY = ["code", *(f"pages/{number}" for number in range(1, 20))]


class ConsumesNothing(dg.IOManager):
    """Takes what it is given and leaves it at that."""

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        pass

    def load_input(self, context: dg.InputContext) -> None:
        pass


def _never_finish(pipeline: Pipeline) -> None:
    pipeline.sandbox.set_faults(never_finish={"url_contains": "/site/pages/"})
    pipeline.ask_for(*TWENTY)


@on_sqlite
def test_with_one_page_in_twenty_settled_the_run_succeeds_and_the_day_is_not_green(
    pipeline: Pipeline,
) -> None:
    _never_finish(pipeline)
    assert pipeline.submit().success
    code = next(job["job_id"] for job in pipeline.jobs() if job["url"].endswith("/code"))
    pipeline.finish([code])

    run = pipeline.settle()

    assert run.success
    assert materialised(run) == set()
    assert set(observed(run)) == {(asset, DAY) for asset in SETTLED_BY_DAY}
    for figures in observed(run).values():
        assert (figures["stored"], figures["in_flight"], figures["targets"]) == (1, 19, 20)
    skipped = {event.step_key for event in events_of(run, "STEP_SKIPPED")}
    assert any("complete" in str(step) for step in skipped), "the checks of a day in flight are not due"
    assert not pipeline.is_settled_in_dagster()
    assert pipeline.count(results) == 1


@on_sqlite
def test_the_day_is_green_when_its_last_page_settles(pipeline: Pipeline) -> None:
    _never_finish(pipeline)
    pipeline.submit()
    first, *others, last = [job["job_id"] for job in pipeline.jobs()]
    for ended in ([first], others):
        pipeline.finish(ended)
        assert pipeline.settle().success
        assert not pipeline.is_settled_in_dagster()

    pipeline.finish([last])
    run = pipeline.settle()

    assert materialised(run) == {(asset, DAY) for asset in SETTLED_BY_DAY}
    assert observed(run) == {}
    assert metadata_of(run)["stored_results", DAY]["stored"] == 20
    assert pipeline.is_green()
    assert pipeline.audit() == []


@on_sqlite
def test_the_submission_is_green_only_when_every_target_was_accepted(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1", "pages/2", "pages/3")

    run = pipeline.submit_at_most(2)
    assert run.success
    assert materialised(run) == {("targets", DAY)}
    assert observed(run)["submitted_jobs", DAY]["planned"] == 1

    run = pipeline.submit()
    assert ("submitted_jobs", DAY) in materialised(run)
    assert pipeline.posts() == 3


@on_sqlite
def test_without_an_io_manager_that_consumes_them_no_outcome_is_stored(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1", "broken/2", "empty")
    pipeline.submit()
    pipeline.bring_news()
    before = pipeline.stored_state()
    stand_in = Pipeline(
        pipeline.sandbox,
        pipeline.instance,
        pipeline.ledger,
        pipeline.target_list,
        dg.Definitions(
            assets=ASSETS,
            asset_checks=CHECKS,
            jobs=[submit_jobs, settle_jobs],
            resources={**(defs.resources or {}), "idempotency_io_manager": ConsumesNothing()},
            executor=dg.in_process_executor,
        ),
    )

    run = stand_in.settle()

    assert run.success
    assert materialised(run) == set()
    assert pipeline.count(results) == pipeline.count(dead_letters) == 0
    assert pipeline.count(processed_events, processed_events.c.processed_at.is_not(None)) == 0
    assert pipeline.stored_state() == before, "not even a claim is left behind"
    assert GET not in pipeline.sandbox.requests()

    pipeline.settle()
    assert pipeline.count(results) == 2
    assert pipeline.count(dead_letters) == 1
    assert pipeline.count(processed_events, processed_events.c.processed_at.is_(None)) == 0


@on_sqlite
def test_materialising_a_finished_day_again_changes_nothing(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1", "broken/2", "empty", "pages/4")
    pipeline.complete()
    before, posts, requests = pipeline.stored_state(), pipeline.posts(), pipeline.requests()

    for job in ("submit_jobs", "settle_jobs", "submit_jobs", "settle_jobs"):
        run = pipeline.run(job)
        assert run.success
        assert materialised(run)

    assert pipeline.stored_state() == before
    assert pipeline.posts() == posts == 4
    assert pipeline.requests() == requests, "there is nothing to ask the service for"


@pytest.mark.timeout(240)
def test_two_settle_runs_at_once_store_everything_once(pipeline: Pipeline) -> None:
    pipeline.ask_for(*(f"pages/{number}" for number in range(1, 151)), "broken/1", "broken/2")
    pipeline.submit()
    pipeline.bring_news()
    posts = pipeline.posts()

    runs = _at_once(lambda instance: pipeline.run("settle_jobs", instance=instance), 2)

    assert all(run.success for run in runs)
    assert pipeline.posts() == posts
    assert pipeline.count(results) == 150
    assert pipeline.count(dead_letters) == 2
    assert pipeline.settle().success
    assert pipeline.audit() == []


@pytest.mark.timeout(240)
def test_two_submit_runs_at_once_submit_every_target_once(pipeline: Pipeline) -> None:
    pipeline.ask_for(*(f"pages/{number}" for number in range(1, 201)))

    runs = _at_once(lambda instance: pipeline.run("submit_jobs", instance=instance), 2)

    assert all(run.success for run in runs)
    assert pipeline.posts() == len({job["url"] for job in pipeline.jobs()}) == 200
    assert pipeline.progress().accepted == 200


def _at_once(
    start: Callable[[dg.DagsterInstance], dg.ExecuteInProcessResult], times: int
) -> list[dg.ExecuteInProcessResult]:
    """Runs that begin together, each with an instance of its own, as in processes of their own."""
    gate, ended = threading.Barrier(times), list[Any]()

    def run() -> None:
        with dg.DagsterInstance.ephemeral() as instance:
            gate.wait()
            ended.append(start(instance))

    threads = [threading.Thread(target=run) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(110)
    assert len(ended) == times
    return ended


@on_sqlite
def test_a_run_over_three_days_gives_each_day_its_own_figures(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1")
    pipeline.run("submit_jobs", DAY)
    pipeline.ask_for("pages/1", "pages/2", "empty")

    submit = pipeline.run("submit_jobs", tags=THREE_DAYS)
    pipeline.bring_news()
    settle = pipeline.run("settle_jobs", tags=THREE_DAYS)

    assert submit.success
    assert pipeline.posts() == 9, "a day's list is its own, and what was submitted stays submitted"
    days = (DAY, NEXT_DAY, THIRD_DAY)
    assert materialised(settle) == {(asset, day) for asset in SETTLED_BY_DAY for day in days}
    for day in days:
        assert metadata_of(submit)["submitted_jobs", day]["targets"] == 3
        figures = metadata_of(settle)["stored_results", day]
        assert (figures["targets"], figures["stored"], figures["empty_pages"]) == (3, 3, 1)


def test_a_run_over_a_range_changes_nothing_of_finished_days_and_leaves_an_open_one_open(
    pipeline: Pipeline,
) -> None:
    pipeline.ask_for("pages/1", "broken/2")
    pipeline.complete(DAY, NEXT_DAY)
    before, posts = pipeline.stored_state(), pipeline.posts()
    for job in ("submit_jobs", "settle_jobs"):
        finished = {**THREE_DAYS, "dagster/asset_partition_range_end": NEXT_DAY}
        assert pipeline.run(job, tags=finished).success
    assert pipeline.stored_state() == before
    assert pipeline.posts() == posts

    pipeline.sandbox.set_faults(never_finish=True)
    assert pipeline.run("submit_jobs", tags=THREE_DAYS).success
    settle = pipeline.run("settle_jobs", tags=THREE_DAYS)

    assert settle.success
    assert pipeline.sandbox.requests()[POST] == posts + 2, "only the third day had something to submit"
    assert materialised(settle) == {(asset, day) for asset in SETTLED_BY_DAY for day in (DAY, NEXT_DAY)}
    assert set(observed(settle)) == {(asset, THIRD_DAY) for asset in SETTLED_BY_DAY}
    assert not pipeline.is_settled_in_dagster(THIRD_DAY)
