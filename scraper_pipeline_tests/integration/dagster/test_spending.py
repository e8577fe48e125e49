"""What decides that a page is paid for: the day's own list, the limits, and nobody else."""

from collections.abc import Iterator
from types import SimpleNamespace

import dagster as dg
import pytest

from scraper_pipeline import sensors
from scraper_pipeline.ledger import Target
from scraper_pipeline.scraper_api import ServerError
from scraper_pipeline.target_lists import read_target_list
from scraper_pipeline_tests.integration.dagster.driving import DAY, NEXT_DAY, Pipeline, on_sqlite

SUBMITTED = [dg.AssetKey("submitted_jobs")]


@on_sqlite
def test_a_run_that_the_sensor_asks_for_adds_no_line_that_was_listed_since(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1", "pages/2")
    pipeline.submit_at_most(1)
    pipeline.ask_for("pages/1", "pages/2", "pages/3")
    [request] = pipeline.tick().run_requests or []
    assert (request.job_name, request.asset_selection) == ("submit_jobs", SUBMITTED)
    run = pipeline.definitions.resolve_job_def("submit_jobs").execute_in_process(
        partition_key=DAY, asset_selection=SUBMITTED, instance=pipeline.instance
    )
    assert run.success
    assert (pipeline.progress().targets, pipeline.posts()) == (2, 2)


@on_sqlite
def test_a_day_whose_planning_was_broken_off_is_planned_to_its_end(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1", "pages/2")

    first = next(entry for entry in read_target_list(pipeline.target_list) if isinstance(entry, Target))

    def breaks() -> Iterator[Target]:
        yield from [first] * 1000
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.ledger.submissions.plan(DAY, breaks())
    [request] = pipeline.tick().run_requests or []
    assert request.asset_selection is None
    assert pipeline.submit().success
    assert pipeline.progress().targets == 2


@on_sqlite
def test_a_limit_of_pages_without_a_resubmission_is_refused_in_words(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1")
    run = pipeline.submit(max_pages=1)
    assert not run.success
    assert pipeline.posts() == 0
    [failure] = run.get_step_failure_events()
    assert "SCRAPER_DAILY_PAGE_LIMIT" in str(failure.step_failure_data.user_failure_data)


@on_sqlite
def test_a_resubmission_over_several_days_keeps_to_one_limit(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1", "pages/2", "pages/3")
    pipeline.complete(DAY, NEXT_DAY)
    before = pipeline.posts()
    pipeline.run(
        "submit_jobs",
        None,
        run_config={"ops": {"submitted_jobs": {"config": {"resubmit": "all", "max_pages": 4}}}},
        tags={"dagster/asset_partition_range_start": DAY, "dagster/asset_partition_range_end": NEXT_DAY},
    )
    assert pipeline.posts() - before == 4


@on_sqlite
def test_where_the_daily_limit_is_used_up_no_submit_run_is_asked_for(
    pipeline: Pipeline, environment: pytest.MonkeyPatch
) -> None:
    pipeline.ask_for("pages/1", "pages/2")
    pipeline.submit_at_most(1)
    environment.setenv("SCRAPER_DAILY_PAGE_LIMIT", "1")
    assert ("submit_jobs", DAY) not in pipeline.asked()
    environment.setenv("SCRAPER_DAILY_PAGE_LIMIT", "2")
    assert ("submit_jobs", DAY) in pipeline.asked()


@on_sqlite
def test_pages_that_were_submitted_again_stay_counted_in_the_days_limit(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1", "pages/2")
    pipeline.complete()
    midnight = pipeline.ledger.clock().replace(hour=0, minute=0, second=0, microsecond=0)
    assert pipeline.ledger.submissions.pages_committed_since(midnight) == 2
    pipeline.ledger.resubmissions.resubmit(pipeline.ledger.resubmissions.settled_targets(DAY, "all"))
    assert pipeline.ledger.submissions.pages_committed_since(midnight) == 2


@on_sqlite
def test_answers_that_can_not_be_resolved_keep_nothing_else_from_going_on(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.ask_for("pages/1", "pages/2")
    pipeline.submit()
    pipeline.bring_news()

    async def fails(*_: object, **__: object) -> None:
        raise ServerError("list_jobs: the service answered 500")

    monkeypatch.setattr(sensors, "resolve_lost_answers", fails)
    monkeypatch.setattr(type(pipeline.ledger.submissions), "overdue", lambda *_: ["a row"])
    assert pipeline.asked() == {("settle_jobs", DAY)}
    pipeline.settle()
    with pytest.raises(dg.Failure, match="could not be resolved"):  # now there is nothing else to ask for
        pipeline.tick()


@on_sqlite
def test_work_that_a_queued_run_waits_for_is_not_asked_for_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.ask_for("pages/1", "pages/2")
    pipeline.submit_at_most(1)
    queued = SimpleNamespace(job_name="submit_jobs", tags={"dagster/partition": DAY})
    monkeypatch.setattr(type(pipeline.instance), "get_runs", lambda *_, **__: [queued])
    assert pipeline.asked() == set()
