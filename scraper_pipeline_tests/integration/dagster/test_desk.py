"""The dead-letter desk and the costs in Dagster: what the jobs change, and what the asset shows of a day."""

from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest

from scraper_pipeline.ledger import LetterFilter, LetterState
from scraper_pipeline.schedules import spend_schedule
from scraper_pipeline_tests.integration.dagster.driving import (
    DAY,
    Pipeline,
    checks_of,
    failures_of,
    metadata_of,
    on_sqlite,
    plain,
)


@pytest.fixture
def finished(pipeline: Pipeline) -> Pipeline:
    """One page and three letters."""
    pipeline.ask_for("pages/1", "broken/5", "broken/6", "broken/7")
    pipeline.complete()
    return pipeline


def _run(pipeline: Pipeline, job: str, **config: Any) -> dg.ExecuteInProcessResult:
    op = {"retry_dead_letters": "retry_chosen_letters", "discard_dead_letters": "discard_chosen_letters"}[job]
    return pipeline.run(job, None, run_config={"ops": {op: {"config": config}}})


def _shown(run: dg.ExecuteInProcessResult) -> dict[str, Any]:
    [output] = [event for event in run.all_events if event.event_type_value == "STEP_OUTPUT"]
    return plain(output.step_output_data.metadata)


@on_sqlite
def test_letters_are_retried_and_discarded_by_jobs_that_show_what_they_did(finished: Pipeline) -> None:
    letters = finished.ledger.letters
    first = letters.ids(LetterFilter())[0]
    refused = _run(finished, "retry_dead_letters")
    assert "Say which letters" in failures_of(refused)[0]
    assert "There is no dead letter 999" in failures_of(_run(finished, "discard_dead_letters", ids=[999]))[0]
    assert "such as 2026-01-31" in failures_of(_run(finished, "retry_dead_letters", days=["today"]))[0]

    discarded = _run(finished, "discard_dead_letters", ids=[first], note="Hopeless.")
    assert _shown(discarded) == {"letters": 1, "discarded": 1, "resolved_before": 0}
    assert [one.note for one in letters.find(LetterFilter(), LetterState.DISCARDED)] == ["Hopeless."]

    posts = finished.posts()
    retried = _run(finished, "retry_dead_letters", codes=["PERMANENT_BLOCK"], days=[DAY], max_pages=1)
    shown = _shown(retried)
    assert (shown["letters"], shown["planned"], shown["most_pages"], shown["beyond_max_pages"]) == (
        2,
        1,
        1,
        1,
    )
    assert finished.posts() == posts
    assert ("submit_jobs", DAY) in finished.asked(), "the sensor sends what is planned"

    finished.end_request_leases()
    assert finished.submit(resubmit="failed").success
    assert finished.posts() == posts + 2, "what was discarded is left alone"
    finished.bring_news()
    settled = finished.settle()
    assert settled.success
    figures = metadata_of(settled)["dead_letters", DAY]
    assert (figures["parked"], figures["discarded"]) == (3, 1)
    [reason] = metadata_of(settled)["dead_letters", DAY]["top_reasons"].records
    assert (reason.data["code"], reason.data["count"]) == ("PERMANENT_BLOCK", 2)
    assert "/site/broken/" in reason.data["example_url"]
    assert finished.is_green()
    assert finished.audit() == []


@on_sqlite
def test_the_spend_of_a_day_is_shown_and_checked(finished: Pipeline, environment: pytest.MonkeyPatch) -> None:
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    environment.setenv("SCRAPER_MONTHLY_PAGE_LIMIT", "100000")
    run = finished.run("compare_costs", today)
    assert run.success
    figures = metadata_of(run)["spend", today]
    assert {
        name: figures[name] for name in ("attempts", "failed", "pages_paid", "pages_charged", "difference")
    } == {
        "attempts": 4,
        "failed": 3,
        "pages_paid": 1,
        "pages_charged": 1,
        "difference": 0,
    }
    assert (figures["month_pages"], figures["month_page_limit"]) == (1, 100000)
    assert checks_of(run) == {"agrees_with_the_service": True, "month_lasts": True}

    environment.setenv("SCRAPER_MONTHLY_PAGE_LIMIT", "1")
    finished.execute("UPDATE results SET tokens_charged = 30")
    run = finished.run("compare_costs", today)
    assert run.success, "it warns and fails nothing"
    assert metadata_of(run)["spend", today]["unexplained"] == -29
    assert checks_of(run) == {"agrees_with_the_service": False, "month_lasts": False}
    [off, used_up] = sorted(run.get_asset_check_evaluations(), key=lambda one: one.check_name)
    assert "29 pages less were charged" in (off.description or "")
    assert f"will be used up on {today}" in (used_up.description or "")

    finished.sandbox.set_faults(unauthorized={"on": "statistics"})
    run = finished.run("compare_costs", today)
    assert run.success
    assert "pages_charged" not in metadata_of(run)["spend", today]
    assert checks_of(run)["agrees_with_the_service"]


@on_sqlite
def test_the_spend_is_asked_for_by_the_clock_once_something_was_planned(pipeline: Pipeline) -> None:
    def asked(at: datetime) -> dg.RunRequest | dg.SkipReason:
        context = dg.build_schedule_context(
            scheduled_execution_time=at, resources=pipeline.definitions.resources
        )
        found = spend_schedule(context)
        assert isinstance(found, dg.RunRequest | dg.SkipReason)
        return found

    assert isinstance(asked(datetime(2026, 2, 1, 0, 50, tzinfo=UTC)), dg.SkipReason)
    pipeline.ask_for("pages/1")
    pipeline.ledger.submissions.plan(DAY, [])
    pipeline.submit_at_most(0)
    night, noon = (asked(datetime(2026, 2, 1, hour, 50, tzinfo=UTC)) for hour in (0, 12))
    assert isinstance(night, dg.RunRequest)
    assert isinstance(noon, dg.RunRequest)
    assert (night.partition_key, noon.partition_key) == ("2026-01-31", "2026-02-01")
    assert isinstance(asked(datetime(2026, 1, 1, 0, 50, tzinfo=UTC)), dg.SkipReason)
