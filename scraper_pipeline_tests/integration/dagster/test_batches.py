"""Batches through Dagster: a day goes out in a few requests, comes back page by page, and is green like any other."""

import pytest

from scraper_pipeline.ledger import Channel
from scraper_pipeline.ledger.schema import results
from scraper_pipeline_tests.integration.dagster.driving import Pipeline, checks_of, metadata_of, wait_for

DAY = "2026-01-05"


@pytest.fixture(autouse=True)
def _in_batches(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("SCRAPER_SUBMISSION_MODE", "auto")


def _bring_news(pipeline: Pipeline) -> None:
    batches = lambda: pipeline.sandbox.truth()["batches"]  # noqa: E731
    wait_for(lambda: all(batch["status"] == "completed" for batch in batches()))
    pipeline.ledger.news.record([batch["job_id"] for batch in batches()], Channel.POLL)


def test_a_day_in_batches_is_green_when_every_url_has_its_outcome(pipeline: Pipeline) -> None:
    pipeline.ask_for(*(f"pages/{number}" for number in range(1, 121)), "broken/1")
    assert pipeline.submit().success
    assert pipeline.posts() == 0
    _bring_news(pipeline)
    for _ in range(6):
        run = pipeline.settle()
        assert run.success
        if pipeline.is_green():
            break
        pipeline.execute("UPDATE submissions SET not_before = NULL")
        assert pipeline.submit().success
        pipeline.bring_news()
    figures = metadata_of(run)["stored_results", DAY]
    assert (figures["stored"], figures["parked"], figures["pages"]) == (120, 1, 120)
    assert checks_of(run)["complete"]
    assert checks_of(run)["stored_once"]
    requests = pipeline.sandbox.requests()
    assert requests["POST /v1/batch"] == 1
    assert requests["GET /v1/batch/{job_id}"] == 1 + 3
    assert pipeline.audit() == []


@pytest.mark.usefixtures("hasty_client")
def test_what_is_read_of_a_batch_is_kept_when_a_page_fails(pipeline: Pipeline) -> None:
    pipeline.ask_for(*(f"pages/{number}" for number in range(1, 261)))
    pipeline.submit()
    _bring_news(pipeline)
    pipeline.sandbox.set_faults(results_500={"page": 6})
    assert pipeline.settle().success
    assert pipeline.count(results) == 250
    assert not pipeline.is_green()
    pipeline.sandbox.clear_faults()
    pipeline.execute("UPDATE processed_events SET available_at = received_at")
    assert pipeline.settle().success
    assert pipeline.count(results) == 260
    assert pipeline.is_green()
