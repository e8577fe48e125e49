"""Days that are done are published by themselves, whatever their age, and again when late results come."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest

from scraper_pipeline.assets.pages import pages
from scraper_pipeline_tests.integration.dagster.driving import (
    DAY,
    NEXT_DAY,
    THIRD_DAY,
    THREE_DAYS,
    Pipeline,
    failures_of,
    materialised,
    metadata_of,
    observed,
    on_sqlite,
)
from scraper_pipeline_tests.integration.ledger.driving import plan
from scraper_pipeline_tests.integration.publishing.driving import site, store

BY_ITSELF = {"dagster/from_automation_condition": "true"}
LATER = {"dagster/asset_partition_range_start": NEXT_DAY, "dagster/asset_partition_range_end": THIRD_DAY}


class Automation:
    """What the sensor does at its ticks, in this process."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._cursor: Any = None

    def tick(self, at: datetime | None = None) -> set[str | None]:
        """The days whose publication is asked for."""
        result = dg.evaluate_automation_conditions(
            self._pipeline.definitions,
            self._pipeline.instance,
            dg.AssetSelection.assets(pages),
            evaluation_time=at,
            cursor=self._cursor,
        )
        self._cursor = result.cursor
        return set(result.get_requested_partitions(dg.AssetKey("pages")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What SCRAPER_PAGES_URL names."""
    return tmp_path / "pages"


def _publish(pipeline: Pipeline, tags: Mapping[str, str]) -> dg.ExecuteInProcessResult:
    return pipeline.run("publish_pages", tags=tags)


@on_sqlite
def test_a_day_is_published_when_it_is_done_and_again_when_late_results_come(
    pipeline: Pipeline, folder: Path
) -> None:
    automation, of_day = Automation(pipeline), {"dagster/partition": DAY, **BY_ITSELF}
    pipeline.ask_for("pages/1", "broken/2")
    assert pipeline.submit().success
    assert automation.tick() == set()
    pipeline.bring_news()
    assert pipeline.settle().success
    assert automation.tick() == {DAY}
    assert automation.tick() == set(), "once is enough"

    run = _publish(pipeline, of_day)
    shown = metadata_of(run)["pages", DAY]
    path = folder / f"day={DAY}" / "pages.parquet"
    assert {name: shown[name] for name in ("rows", "changed", "in_flight", "path")} == {
        "rows": 1, "changed": True, "in_flight": 0, "path": str(path),
    }  # fmt: skip
    assert (shown["bytes"], shown["columns"]) == (path.stat().st_size, 20)
    assert len(shown["dagster/column_schema"].columns) == 20
    assert automation.tick() == set()

    pipeline.ask_for("pages/1", "broken/2", "pages/3")
    assert pipeline.submit().success
    assert automation.tick() == set(), "the day is in flight"
    early = _publish(pipeline, of_day)
    assert early.success
    assert materialised(early) == set()
    assert observed(early)["pages", DAY]["in_flight"] == 1
    pipeline.bring_news()
    assert pipeline.settle().success
    assert automation.tick() == {DAY}
    shown = metadata_of(_publish(pipeline, of_day))["pages", DAY]
    assert (shown["rows"], shown["changed"]) == (2, True)
    assert automation.tick() == set()
    assert len(pd.read_parquet(path)) == 2


def _done(pipeline: Pipeline, *days: str) -> None:
    """Days of two pages each that are stored, and green in Dagster."""
    for day in days:
        store(pipeline.ledger, site(1, 2), day)
        event = dg.AssetMaterialization("stored_results", partition=day)
        pipeline.instance.report_runless_asset_event(event)


@on_sqlite
def test_a_range_is_one_run_that_publishes_what_is_done_and_by_hand_what_is_not(
    pipeline: Pipeline, folder: Path
) -> None:
    automation = Automation(pipeline)
    _done(pipeline, DAY, NEXT_DAY)
    plan(pipeline.ledger, "https://site.test/1", day=THIRD_DAY)
    assert automation.tick() == {DAY, NEXT_DAY}
    run = _publish(pipeline, {**THREE_DAYS, **BY_ITSELF})
    assert run.success
    assert materialised(run) == {("pages", DAY), ("pages", NEXT_DAY)}
    assert observed(run).keys() == {("pages", THIRD_DAY)}
    assert sorted(one.name for one in folder.iterdir()) == [f"day={DAY}", f"day={NEXT_DAY}"]

    shown = metadata_of(_publish(pipeline, LATER))
    assert {day: (one["rows"], one["changed"], one["in_flight"]) for (_, day), one in shown.items()} == {
        NEXT_DAY: (2, False, 0),
        THIRD_DAY: (0, True, 1),
    }


@on_sqlite
def test_a_day_that_goes_on_between_two_looks_is_published_after_all(
    pipeline: Pipeline, folder: Path
) -> None:
    automation, of_day = Automation(pipeline), {"dagster/partition": DAY, **BY_ITSELF}
    pipeline.ask_for("pages/1", "broken/2")
    assert pipeline.submit().success
    assert automation.tick() == set()
    pipeline.bring_news()
    assert pipeline.settle().success
    assert automation.tick() == {DAY}
    pipeline.ask_for("pages/1", "broken/2", "pages/3")
    assert pipeline.submit().success
    too_early = _publish(pipeline, of_day)
    assert observed(too_early)["pages", DAY]["in_flight"] == 1
    pipeline.bring_news()
    assert pipeline.settle().success
    assert automation.tick() == {DAY}
    assert _publish(pipeline, of_day).success
    assert [automation.tick() for _ in range(2)] == [set(), set()]
    assert len(pd.read_parquet(folder / f"day={DAY}" / "pages.parquet")) == 2


@on_sqlite
def test_late_pages_of_a_pruned_day_fail_a_publication_by_hand_alone(
    pipeline: Pipeline, folder: Path
) -> None:
    automation, of_day = Automation(pipeline), {"dagster/partition": DAY}
    _done(pipeline, DAY)
    assert automation.tick() == {DAY}
    assert _publish(pipeline, {**of_day, **BY_ITSELF}).success
    [old] = pipeline.ledger.retention.old_days("2026-02-01")
    pipeline.ledger.retention.drop_content(old)
    store(pipeline.ledger, site(3), DAY)

    by_itself = _publish(pipeline, {**of_day, **BY_ITSELF})
    assert by_itself.success
    assert observed(by_itself).keys() == {("pages", DAY)}
    assert automation.tick(datetime.now(UTC) + timedelta(minutes=31)) == set()
    assert len(pd.read_parquet(folder / f"day={DAY}" / "pages.parquet")) == 2
    [said] = failures_of(_publish(pipeline, of_day))
    assert f"Content of {DAY} was pruned" in said


@on_sqlite
def test_a_publication_that_fails_says_why_and_is_asked_for_again_later(
    pipeline: Pipeline, folder: Path
) -> None:
    automation = Automation(pipeline)
    _done(pipeline, DAY)
    assert automation.tick() == {DAY}
    folder.write_text("a file where a folder should be")
    run = _publish(pipeline, {"dagster/partition": DAY, **BY_ITSELF})
    assert not run.success
    [said] = failures_of(run)
    assert re.fullmatch(r".*/pages\.parquet can't be read: Not a directory", said)
    assert automation.tick() == set()
    assert automation.tick(datetime.now(UTC) + timedelta(minutes=31)) == {DAY}
