"""Pages are paid again only where a run's configuration asks for it, and what the list says besides URLs is kept."""

from typing import Any

import dagster as dg
import pytest
from sqlalchemy import select

from scraper_pipeline.ledger.schema import dead_letters, results
from scraper_pipeline_tests.integration.dagster.driving import DAY, Pipeline, metadata_of, on_sqlite
from scraper_pipeline_tests.integration.dagster.secrecy import everything_said


@pytest.fixture
def finished(pipeline: Pipeline) -> Pipeline:
    """Four pages and two letters."""
    pipeline.ask_for("pages/1", "pages/2", "pages/3", "pages/4", "broken/5", "broken/6")
    pipeline.complete()
    assert (pipeline.progress().stored, pipeline.progress().dead) == (4, 2)
    return pipeline


def _settled_again(pipeline: Pipeline, **config: Any) -> int:
    """Submit with a configuration and settle; returns how many POSTs that took."""
    posts = pipeline.posts()
    assert pipeline.submit(**config).success
    pipeline.bring_news()
    assert pipeline.settle().success
    assert pipeline.progress().is_settled
    assert pipeline.audit() == []
    return pipeline.posts() - posts


def test_failed_targets_are_submitted_again_on_request_and_no_others(finished: Pipeline) -> None:
    assert _settled_again(finished, resubmit="failed") == 2
    assert finished.count(dead_letters, dead_letters.c.resolved_at.is_(None)) == 2
    assert finished.count(dead_letters) == 4, "the letters of old stay readable"
    assert finished.count(results) == 4


@on_sqlite
def test_all_targets_are_submitted_again_on_request(finished: Pipeline) -> None:
    assert _settled_again(finished, resubmit="all") == 6
    assert finished.count(results) == 8
    with finished.ledger.engine.connect() as connection:
        current = connection.exec_driver_sql("SELECT count(*) FROM current_results").scalar()
    assert current == 4


@on_sqlite
def test_a_limit_of_pages_holds_for_the_run(finished: Pipeline) -> None:
    assert _settled_again(finished, resubmit="all", max_pages=3) == 3
    assert finished.progress().targets == 6


@on_sqlite
@pytest.mark.parametrize("config", [{"resubmit": "all"}, {"resubmit": "failed", "max_pages": 3}])
def test_a_run_that_stands_in_for_a_lost_one_pays_for_nothing_again(
    finished: Pipeline, config: dict[str, Any]
) -> None:
    """The daemon begins a lost run again with the same configuration."""
    posts = finished.posts()
    tags = {"dagster/partition": DAY, "dagster/retry_number": "1"}
    run = finished.run("submit_jobs", tags=tags, run_config={"ops": {"submitted_jobs": {"config": config}}})
    assert run.success
    assert finished.posts() == posts
    assert finished.progress().is_settled


@on_sqlite
def test_a_request_to_resubmit_is_good_for_one_run(finished: Pipeline) -> None:
    assert _settled_again(finished, resubmit="failed") == 2
    assert _settled_again(finished) == 0


@on_sqlite
def test_whoever_resubmits_a_pruned_day_is_told_that_its_file_stays_as_it_is(
    finished: Pipeline,
) -> None:
    [old] = finished.ledger.retention.old_days("2026-02-01")
    finished.ledger.retention.drop_content(old)
    assert finished.submit(resubmit="failed").success
    assert f"{DAY}: content was pruned, so the published file" in everything_said(finished.instance)


@on_sqlite
def test_a_bound_below_nothing_is_refused_and_nothing_is_sent(finished: Pipeline) -> None:
    posts = finished.posts()
    refused = finished.submit(resubmit="all", max_pages=-1)
    assert not refused.success
    assert "greater than or equal to 0" in everything_said(finished.instance)
    assert finished.posts() == posts


@on_sqlite
def test_an_unknown_way_to_resubmit_is_refused_before_anything_runs(finished: Pipeline) -> None:
    posts = finished.posts()
    with pytest.raises(Exception, match="resubmit"):
        finished.submit(resubmit="everything")
    assert finished.posts() == posts


@on_sqlite
def test_labels_travel_to_the_results_and_faulty_lines_are_reported_by_number(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = f"{pipeline.sandbox.url}/site"
    path = pipeline.target_list.with_suffix(".csv")
    path.write_text(
        "url,customer,formats\n"
        f"{site}/pages/1,Müller & Söhne,markdown\n"
        "not a url,nobody,\n"
        f"{site}/pages/2,Ødegård,markdown html\n"
        f"{site}/pages/1,somebody else,markdown\n"
        "ftp://files.example/,nobody,\n"
    )
    monkeypatch.setenv("SCRAPER_TARGETS", str(path))

    submit = pipeline.submit()
    pipeline.bring_news()
    assert submit.success
    assert pipeline.settle().success

    figures = metadata_of(submit)["targets", DAY]
    assert (figures["targets"], figures["rejected_lines"], figures["duplicate_lines"]) == (2, 2, 1)
    problems = {record.data["line"]: record.data["reason"] for record in _problems(submit)}
    assert problems.keys() == {3, 5, 6}
    assert problems[5] == "the same as line 2"
    with pipeline.ledger.engine.connect() as connection:
        rows = connection.execute(select(results.c.url, results.c.labels, results.c.html)).all()
    labels = {row.url: row.labels for row in rows}
    assert labels == {
        f"{site}/pages/1": {"customer": "Müller & Söhne"},
        f"{site}/pages/2": {"customer": "Ødegård"},
    }
    assert {row.url: bool(row.html) for row in rows} == {f"{site}/pages/1": False, f"{site}/pages/2": True}


def _problems(run: dg.ExecuteInProcessResult) -> list[dg.TableRecord]:
    for event in run.all_events:
        if event.event_type_value == "ASSET_MATERIALIZATION":
            materialization = event.step_materialization_data.materialization
            if materialization.asset_key.to_user_string() == "targets":
                table = materialization.metadata["problems"]
                assert isinstance(table, dg.TableMetadataValue)
                return list(table.records)
    raise AssertionError("the targets were not materialised")
