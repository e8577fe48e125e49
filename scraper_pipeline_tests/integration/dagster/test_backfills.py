"""A week as weeks are: a backfill of all of it pays for what is missing, and for nothing else."""

from typing import Any

import pytest

from scraper_pipeline_tests.integration.dagster.driving import Pipeline, on_sqlite

WEEK = [f"2026-01-{day:02}" for day in range(5, 12)]
MISSED, HALF_FAILED, INTERRUPTED = WEEK[3:6]
PAGES = ("pages/1", "pages/2", "pages/3", "pages/4")


def _over(first: str, last: str) -> dict[str, str]:
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


@pytest.fixture
def week(pipeline: Pipeline) -> Pipeline:
    """Seven days: three are well, of which one was launched twice; one was missed, one half failed, one broken off."""
    pipeline.ask_for(*PAGES)
    assert pipeline.run("submit_jobs", tags=_over(*WEEK[:3:2])).success
    assert pipeline.submit(WEEK[1]).success
    pipeline.sandbox.set_faults(
        job_failed=[{"url_contains": page, "code": "PERMANENT_BLOCK"} for page in PAGES[:2]]
    )
    assert pipeline.submit(HALF_FAILED).success
    pipeline.sandbox.set_faults(job_failed=[])
    assert pipeline.submit(INTERRUPTED, max_pages=1).success
    assert pipeline.submit(WEEK[-1]).success
    pipeline.bring_news()
    assert pipeline.run("settle_jobs", tags=_over(WEEK[0], WEEK[-1])).success
    return pipeline


def _posts_of_a_backfill(pipeline: Pipeline, **config: Any) -> int:
    """Launch one run over the whole week and settle it; returns how many POSTs that took."""
    before = pipeline.posts()
    run_config = {"ops": {"submitted_jobs": {"config": config}}} if config else None
    run = pipeline.run("submit_jobs", tags=_over(WEEK[0], WEEK[-1]), run_config=run_config)
    assert run.success
    if pipeline.posts() > before:
        pipeline.bring_news()
        assert pipeline.run("settle_jobs", tags=_over(WEEK[0], WEEK[-1])).success
    return pipeline.posts() - before


@on_sqlite
def test_a_backfill_of_a_week_pays_for_what_is_missing_and_nothing_else(week: Pipeline) -> None:
    assert _posts_of_a_backfill(week) == 4 + 3, "the missed day, and the rest of the one that was broken off"
    assert _posts_of_a_backfill(week, resubmit="failed") == 2, "the half that failed"
    assert _posts_of_a_backfill(week) == 0
    assert all(week.is_green(day) for day in WEEK)
    assert {week.progress(day).stored for day in WEEK} == {len(PAGES)}
    assert week.audit() == []
