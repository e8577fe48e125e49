"""A day from its list to green, driven by nothing but the first submission and the sensor."""

import json
import time

import dagster as dg
import pytest
from sqlalchemy import select

from scraper_pipeline.ledger.schema import results
from scraper_pipeline_tests.integration.dagster.driving import (
    DAY,
    GET,
    NEXT_DAY,
    Pipeline,
    metadata_of,
    observed,
    on_sqlite,
)

NOT_NUMBERS = {"day_so_far", "latency", "lists", "preview", "problems", "reasons", "top_reasons"}


@pytest.mark.usefixtures("quick_resubmission")
def test_the_sensor_brings_a_day_with_troubles_of_every_kind_to_green(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_DRAIN_QUIET_SECONDS", "2")
    monkeypatch.setenv("SCRAPER_MAX_ATTEMPTS", "2")
    pipeline.ask_for(
        *(f"pages/{n}" for n in range(1, 31)), "flaky/1", "broken/1", "cancelled/1", "empty", "large"
    )
    assert pipeline.submit().success
    cursor, seen, end = None, set(), time.monotonic() + 60
    while not (pipeline.progress().is_settled and pipeline.is_green()):
        assert time.monotonic() < end, pipeline.progress()
        tick = pipeline.tick(cursor)
        cursor = tick.cursor
        for request in tick.run_requests or []:
            assert request.run_key not in seen
            seen.add(request.run_key)
            assert request.job_name
            assert pipeline.run(request.job_name, request.partition_key).success
        pipeline.end_request_leases()
        time.sleep(0.2)

    progress = pipeline.progress()
    assert (progress.targets, progress.stored, progress.dead) == (35, 33, 2)
    assert pipeline.posts() == 36, "one page was worth a second attempt"
    assert pipeline.sandbox.requests()[GET] <= 40
    assert pipeline.audit() == []
    assert pipeline.asked(cursor) == set()


@pytest.mark.usefixtures("quick_resubmission")
@on_sqlite
def test_metadata_keys_are_the_same_on_every_materialisation_and_the_figures_are_numbers(
    pipeline: Pipeline, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("SCRAPER_DAILY_PAGE_LIMIT", "1000")
    shown: dict[str, list[dict[str, object]]] = {}

    def remember(*runs: dg.ExecuteInProcessResult) -> None:
        for run in runs:
            for (asset, _), metadata in [*metadata_of(run).items(), *observed(run).items()]:
                shown.setdefault(asset, []).append(metadata)

    pipeline.target_list.write_text("")
    remember(pipeline.submit(), pipeline.settle())
    pipeline.ask_for("pages/1", "pages/2", "broken/3", "flaky/4")
    remember(pipeline.submit_at_most(1, NEXT_DAY), pipeline.settle(NEXT_DAY))
    for _ in range(2):
        remember(pipeline.submit(NEXT_DAY))
        pipeline.bring_news()
        remember(pipeline.settle(NEXT_DAY))
    assert pipeline.is_green(DAY)
    assert pipeline.is_green(NEXT_DAY)

    assert set(shown) == {"targets", "submitted_jobs", "stored_results", "dead_letters"}
    for asset, all_metadata in shown.items():
        assert len(all_metadata) >= 3, asset
        for metadata in all_metadata:
            assert metadata.keys() == all_metadata[0].keys(), asset
            for name in metadata.keys() - NOT_NUMBERS:
                assert isinstance(metadata[name], int | float), (asset, name)


@on_sqlite
def test_every_asset_shows_a_table_of_rows_without_the_pages_content(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1", "pages/2", "broken/3")
    submit = pipeline.submit()
    pipeline.bring_news()
    settle = pipeline.settle()
    with pipeline.ledger.engine.connect() as connection:
        content = [page for page in connection.scalars(select(results.c.markdown)) if page]
    assert len(content) == 2
    for (asset, _), metadata in {**metadata_of(submit), **metadata_of(settle)}.items():
        table = metadata["preview"]
        records = [record.data for record in _records(submit, settle, asset)]
        assert table
        assert 1 <= len(records) <= 10, asset
        assert all(str(record["url"]).startswith(pipeline.sandbox.url) for record in records)
        text = json.dumps(records)
        assert not [page for page in content if page[:40] in text]


def _records(
    submit: dg.ExecuteInProcessResult, settle: dg.ExecuteInProcessResult, asset: str
) -> list[dg.TableRecord]:
    for event in [*submit.all_events, *settle.all_events]:
        if event.event_type_value == "ASSET_MATERIALIZATION":
            found = event.step_materialization_data.materialization
            value = found.metadata["preview"]
            if found.asset_key.to_user_string() == asset:
                assert isinstance(value, dg.TableMetadataValue)
                return list(value.records)
    raise AssertionError(f"{asset} was not materialised")
