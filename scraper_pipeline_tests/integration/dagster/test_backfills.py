"""A week as weeks are: a backfill of all of it pays for what is missing, and for nothing else."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from scraper_pipeline.cli import main as cli
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


def _plan(pipeline: Pipeline) -> dict[str, tuple[int, int]]:
    """What ``plan`` says of each day: the pages that are missing, and those that were parked."""
    arguments = ["plan", "--since", WEEK[0], "--until", WEEK[-1], "--json"]
    printed = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert printed.exit_code == 0, printed.output
    return {
        one["day"]: (one["missing_pages"], one["parked_pages"])
        for one in json.loads(printed.stdout)["days"]
        if one["missing_pages"] or one["parked_pages"]
    }


@on_sqlite
def test_a_backfill_of_a_week_pays_for_what_is_missing_and_nothing_else(week: Pipeline) -> None:
    assert _plan(week) == {MISSED: (4, 0), HALF_FAILED: (0, 2), INTERRUPTED: (3, 0)}
    assert _posts_of_a_backfill(week) == 4 + 3
    assert _plan(week) == {HALF_FAILED: (0, 2)}
    assert _posts_of_a_backfill(week, resubmit="failed") == 2
    assert _plan(week) == {}
    assert _posts_of_a_backfill(week) == 0
    assert all(week.is_green(day) for day in WEEK)
    assert {week.progress(day).stored for day in WEEK} == {len(PAGES)}
    assert week.audit() == []
