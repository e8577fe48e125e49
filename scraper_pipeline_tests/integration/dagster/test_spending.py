"""What decides that a page is paid for: the day's own list, the limits, and nobody else."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from scraper_pipeline import sensors
from scraper_pipeline.ledger import Channel, Target
from scraper_pipeline.ledger.schema import run_leases
from scraper_pipeline.scraper_api import ServerError
from scraper_pipeline.target_lists import read_target_list
from scraper_pipeline_tests.integration.dagster.driving import (
    DAY,
    NEXT_DAY,
    TERMINAL,
    Pipeline,
    failures_of,
    materialised,
    metadata_of,
    observed,
    on_sqlite,
    wait_for,
)

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


def test_a_run_spends_no_more_than_its_max_pages_and_nobody_but_an_operator_sends_the_rest(
    pipeline: Pipeline,
) -> None:
    pipeline.ask_for(*(f"pages/{number}" for number in range(1, 6)))
    run = pipeline.submit(max_pages=2)
    assert run.success
    assert (pipeline.posts(), pipeline.progress().planned) == (2, 3)
    pipeline.end_request_leases_but_holds()
    assert ("submit_jobs", DAY) not in pipeline.asked()
    assert pipeline.run("reconcile_jobs", None).success
    assert pipeline.posts() == 2, "the sweep leaves it alone, too"
    late = pipeline.run(
        "submit_jobs", tags={"dagster/partition": DAY, "dagster/sensor_name": "job_status_sensor"}
    )
    assert (late.success, pipeline.posts()) == (True, 2), "a run that was queued before makes no difference"
    assert pipeline.submit().success
    assert (pipeline.posts(), pipeline.progress().planned) == (5, 0)


@on_sqlite
def test_a_long_list_is_held_before_the_first_of_it_is_planned(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sensor looks every few seconds, and a run may be killed while it plans."""
    plan, asked = type(pipeline.ledger.submissions).plan, []

    def planned_slowly(store: Any, day: str, *what: Any) -> Any:
        report = plan(store, day, *what)
        asked.append(pipeline.asked())
        raise ServerError(str(report))

    pipeline.ask_for("pages/1", "pages/2", "pages/3")
    with monkeypatch.context() as patch:
        patch.setattr(type(pipeline.ledger.submissions), "plan", planned_slowly)
        assert not pipeline.submit(max_pages=1).success
    assert asked == [set()]
    assert pipeline.progress().planned == 3
    assert ("submit_jobs", DAY) not in pipeline.asked()


@on_sqlite
def test_what_max_pages_left_is_the_sensors_again_once_it_was_launched(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1", "pages/2", "pages/3")
    pipeline.submit(max_pages=1)
    pipeline.submit_at_most(2)
    pipeline.end_request_leases_but_holds()
    assert ("submit_jobs", DAY) in pipeline.asked()


@on_sqlite
def test_a_run_whose_max_pages_suffices_holds_nothing(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1", "pages/2")
    run = pipeline.submit(max_pages=2)
    assert ("submitted_jobs", DAY) in materialised(run)
    assert pipeline.count(run_leases) == 0


@on_sqlite
def test_max_pages_holds_over_all_days_of_a_run_and_counts_crawls_by_their_limit(pipeline: Pipeline) -> None:
    crawl = Target("crawl", f"{pipeline.sandbox.url}/site/pages/1", {"limit": 4, "depth": 1}, is_crawl=True)
    pipeline.ledger.submissions.plan(DAY, [crawl])
    pipeline.ask_for("pages/1", "pages/2", "pages/3")
    pipeline.run(
        "submit_jobs",
        None,
        run_config={"ops": {"submitted_jobs": {"config": {"max_pages": 8}}}},
        tags={"dagster/asset_partition_range_start": DAY, "dagster/asset_partition_range_end": NEXT_DAY},
    )
    assert (pipeline.progress().accepted, pipeline.progress().planned) == (4, 0)
    assert (pipeline.progress(NEXT_DAY).accepted, pipeline.progress(NEXT_DAY).planned) == (1, 2)


@on_sqlite
def test_a_resubmission_plans_no_crawl_again_that_max_pages_has_no_room_for(pipeline: Pipeline) -> None:
    crawl = Target("crawl", f"{pipeline.sandbox.url}/site/pages/9", {"limit": 4, "depth": 1}, is_crawl=True)
    pipeline.ledger.submissions.plan(DAY, [crawl])
    pipeline.ask_for("pages/1", "pages/2")
    assert pipeline.submit().success
    wait_for(lambda: all(one["status"] in TERMINAL for one in pipeline.sandbox.truth()["crawls"]))
    pipeline.ledger.news.record([one["job_id"] for one in pipeline.sandbox.truth()["crawls"]], Channel.POLL)
    pipeline.bring_news()
    assert pipeline.settle().success
    assert pipeline.submit(resubmit="all", max_pages=3).success
    assert (pipeline.progress().planned, pipeline.progress().accepted, pipeline.progress().stored) == (
        0,
        2,
        1,
    )


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


@pytest.mark.parametrize(
    ("variable", "figure"),
    [
        ("SCRAPER_DAILY_PAGE_LIMIT", "pages_left_today"),
        ("SCRAPER_MONTHLY_PAGE_LIMIT", "pages_left_this_month"),
    ],
)
@on_sqlite
def test_a_limit_that_is_used_up_shows_on_the_asset_and_on_the_sensor(
    pipeline: Pipeline, environment: pytest.MonkeyPatch, variable: str, figure: str
) -> None:
    pipeline.ask_for("pages/1", "pages/2", "pages/3")
    environment.setenv(variable, "2")
    run = pipeline.submit()
    assert run.success
    assert (pipeline.posts(), pipeline.progress().planned) == (2, 1)
    assert observed(run)["submitted_jobs", DAY][figure] == 0
    passed, severity, said = _last_word(pipeline)
    assert (passed, severity) == (False, dg.AssetCheckSeverity.WARN)
    assert variable in said
    assert "1 targets wait" in said
    answer = pipeline.tick()
    assert answer.run_requests == []
    assert variable in str(answer.skip_reason)
    assert pipeline.run("reconcile_jobs", None).success
    assert pipeline.posts() == 2
    environment.setenv(variable, "5")
    shown = metadata_of(pipeline.submit())["submitted_jobs", DAY]
    assert shown[figure] == 2
    assert len([name for name in shown if name.startswith("pages_left")]) == 1
    assert _last_word(pipeline)[0]


@on_sqlite
def test_without_limits_nothing_is_said_of_what_is_left(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1")
    shown = metadata_of(pipeline.submit())["submitted_jobs", DAY]
    assert not [name for name in shown if name.startswith("pages_left")]


@pytest.mark.parametrize(("fault", "status"), [({"balance": 2}, "402"), ({"unauthorized": True}, "401")])
@on_sqlite
def test_a_refusal_of_the_account_shows_on_the_asset_until_a_run_goes_through(
    pipeline: Pipeline, environment: pytest.MonkeyPatch, fault: dict[str, Any], status: str
) -> None:
    environment.setenv("SCRAPER_CONCURRENCY", "1")
    pipeline.ask_for(*(f"pages/{number}" for number in range(1, 7)))
    pipeline.sandbox.set_faults(**fault)
    run = pipeline.submit()
    assert status in failures_of(run)[0]
    waiting = pipeline.progress().planned
    assert waiting
    passed, severity, said = _last_word(pipeline)
    assert (passed, severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "refused the account" in said
    assert f"{waiting} targets wait. Nothing is lost" in said
    pipeline.sandbox.clear_faults()
    assert pipeline.submit().success
    assert _last_word(pipeline)[0]


@on_sqlite
def test_a_run_says_what_it_may_cost_before_it_sends_anything(
    pipeline: Pipeline, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("SCRAPER_DAILY_PAGE_LIMIT", "10")
    environment.setenv("SCRAPER_MONTHLY_PAGE_LIMIT", "1000")
    pipeline.ask_for("pages/1", "pages/2", "pages/3")
    crawl = Target("crawl", f"{pipeline.sandbox.url}/site/pages/9", {"limit": 4, "depth": 1}, is_crawl=True)
    pipeline.ledger.submissions.plan(DAY, [crawl])
    run = pipeline.submit(max_pages=5)
    said = _said(pipeline, run)
    cost = f"{DAY}: 4 targets wait, at most 7 pages; this run may pay for 5 of them;"
    left = "10 pages are left today and 1000 pages are left this month."
    assert f"{cost} {left}" in said
    assert "The rest stays planned, held by max_pages." in said


@on_sqlite
def test_a_run_says_once_that_the_service_does_not_tell_its_places(pipeline: Pipeline) -> None:
    pipeline.sandbox.set_faults(cut_before={"on": "usage"})
    pipeline.ask_for("pages/1", "pages/2", "pages/3")
    run = pipeline.submit()
    assert run.success
    assert _said(pipeline, run).count("did not tell it") == 1


def _said(pipeline: Pipeline, run: dg.ExecuteInProcessResult) -> str:
    """Everything in the log of a run."""
    return "\n".join(entry.user_message for entry in pipeline.instance.all_logs(run.run_id))


def _last_word(pipeline: Pipeline) -> tuple[bool, dg.AssetCheckSeverity, str]:
    """What the check on `submitted_jobs` last said."""
    records = pipeline.instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(dg.AssetKey("submitted_jobs"), "nothing_waits"), limit=1
    )
    event = records[0].event
    assert event
    assert event.dagster_event
    evaluation = event.dagster_event.asset_check_evaluation_data
    return evaluation.passed, evaluation.severity, evaluation.description or ""


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


@on_sqlite
def test_work_that_a_run_is_to_begin_with_is_not_asked_for_again(pipeline: Pipeline) -> None:
    """While a cluster finds it a machine, say, which may take minutes."""
    pipeline.ask_for("pages/1", "pages/2")
    pipeline.submit_at_most(1)
    job = pipeline.definitions.resolve_job_def("submit_jobs")
    status = dg.DagsterRunStatus.STARTING
    pipeline.instance.create_run_for_job(job, tags={"dagster/partition": DAY}, status=status)
    assert pipeline.asked() == set()
