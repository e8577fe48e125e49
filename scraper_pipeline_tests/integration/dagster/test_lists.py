"""Several lists in Dagster: each is planned for itself, shown for itself, and submitted when it is due."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import dagster as dg
import pytest

from scraper_pipeline.jobs import lists_config
from scraper_pipeline.ledger import ListTerms, Target, UnfinishedList
from scraper_pipeline.ledger.schema import submissions
from scraper_pipeline.schedules import daily_submission_schedule, list_schedules
from scraper_pipeline.target_lists import make_target
from scraper_pipeline_tests.integration.dagster.driving import (
    DAY,
    NEXT_DAY,
    Pipeline,
    failures_of,
    metadata_of,
    observed,
    on_sqlite,
)

LISTS = """
lists:
  shops:
    source: shops-{date}.txt
    schedule: 30 6 * * *
    budget: {max_pages_per_day: 2}
  stock:
    source: stock-{date}.csv
    schedule: manual
"""


@pytest.fixture
def lists(pipeline: Pipeline, environment: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of two lists; of that day's files only that of the shops is there yet."""
    (tmp_path / "targets.yaml").write_text(LISTS)
    environment.setenv("SCRAPER_TARGETS", str(tmp_path / "targets.yaml"))
    write(tmp_path / f"shops-{DAY}.txt", pipeline, 1, 2, 3)
    return tmp_path


def write(path: Path, pipeline: Pipeline, *pages: int, head: str = "") -> None:
    path.write_text(head + "".join(f"{pipeline.sandbox.url}/site/pages/{page}\n" for page in pages))


def checked(run: dg.ExecuteInProcessResult) -> dg.AssetCheckEvaluation:
    (one,) = [one for one in run.get_asset_check_evaluations() if one.check_name == "lists_keep_their_size"]
    return one


@on_sqlite
def test_each_list_is_planned_for_itself_and_compared_with_its_day_before(
    pipeline: Pipeline, lists: Path
) -> None:
    broken = pipeline.run("submit_jobs")
    (said,) = failures_of(broken)
    assert f"list stock: {lists}/stock-{DAY}.csv cannot be opened" in said
    assert (pipeline.progress().planned, pipeline.posts()) == (2, 0), "the other list is planned all the same"
    assert observed(broken)["targets", DAY]["beyond_budget"] == 1
    assert pipeline.ledger.lists.unfinished(DAY) == [UnfinishedList("stock", has_failed=True)]
    [request] = pipeline.tick().run_requests or []
    assert request.asset_selection == [dg.AssetKey("submitted_jobs")], (
        "and its targets wait for no other list"
    )
    pipeline.end_request_leases()

    write(lists / f"stock-{DAY}.csv", pipeline, 3, 4, head="url\nnonsense\n")
    run = pipeline.run("submit_jobs", run_config=lists_config(["stock"]))
    assert run.success
    shown = metadata_of(run)["targets", DAY]
    assert (shown["planned_now"], shown["beyond_budget"], shown["rejected_lines"]) == (2, 1, 1)
    figures = {record.data["list"]: record.data for record in shown["lists"].records}
    assert figures["shops"] == {
        "list": "shops", "targets": 3, "planned_now": 0, "most_pages": 2, "beyond_budget": 1,
    }  # fmt: skip
    assert figures["stock"]["planned_now"] == 2
    assert [record.data["list"] for record in shown["problems"].records] == ["stock"]
    with pipeline.ledger.engine.connect() as connection:
        labels = connection.scalars(submissions.select().with_only_columns(submissions.c.labels)).all()
    assert sorted(one["list"] for one in labels) == ["shops", "shops", "stock", "stock"]
    assert checked(run).passed, "there is no day before"

    write(lists / f"shops-{NEXT_DAY}.txt", pipeline, 1, 2)
    write(lists / f"stock-{NEXT_DAY}.csv", pipeline, 3, 4, head="url\n")
    run = pipeline.run("submit_jobs", NEXT_DAY)
    assert run.success
    check = checked(run)
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert check.description == f"{NEXT_DAY}: the list shops has 2 targets, and had 3 on {DAY}."
    assert (check.metadata["lists_compared"].value, check.metadata["lists_changed"].value) == (2, 1)

    (said,) = failures_of(pipeline.run("submit_jobs", run_config=lists_config(["shop"])))
    assert "there is no list named 'shop'; did you mean shops?" in said


@on_sqlite
def test_only_the_list_whose_planning_was_broken_off_is_planned_again(
    pipeline: Pipeline, lists: Path
) -> None:
    def breaks() -> Iterator[Target]:
        for page in range(1000):
            yield make_target(f"{pipeline.sandbox.url}/site/pages/{page}")
        raise KeyboardInterrupt

    write(lists / f"stock-{DAY}.csv", pipeline, 7, head="url\n")
    with pytest.raises(KeyboardInterrupt):
        pipeline.ledger.submissions.plan(DAY, breaks(), ListTerms("shops", pages_per_day=2))
    [request] = pipeline.tick().run_requests or []
    assert (request.asset_selection, request.run_config) == (None, lists_config(["shops"]))
    assert pipeline.run("submit_jobs", run_config=request.run_config).success
    assert pipeline.progress().targets == 2, "nobody has asked for the list that is manual"
    assert pipeline.ledger.lists.unfinished(DAY) == []


@on_sqlite
def test_a_list_that_is_gone_when_it_should_be_planned_to_its_end_keeps_nothing_waiting(
    pipeline: Pipeline, lists: Path
) -> None:
    pipeline.ledger.lists.begin(DAY, "renamed")
    assert pipeline.run("submit_jobs", run_config=lists_config(["shops"])).success
    assert not pipeline.run("submit_jobs", run_config=lists_config(["renamed"])).success
    assert pipeline.ledger.lists.unfinished(DAY) == [UnfinishedList("renamed", has_failed=True)]


def _request(schedule: dg.ScheduleDefinition, at: datetime) -> dg.RunRequest | dg.SkipReason:
    with dg.build_schedule_context(scheduled_execution_time=at) as context:
        answer = schedule(context)
    assert isinstance(answer, dg.RunRequest | dg.SkipReason)
    return answer


def test_lists_run_by_their_own_schedules_and_the_rest_by_the_daily_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "targets.yaml"
    monkeypatch.setenv("SCRAPER_TARGETS", str(path))
    at = datetime(2026, 3, 29, 6, 30, tzinfo=UTC)
    assert list_schedules() == [], "an absent file fails nothing but what needs it"
    with pytest.raises(dg.Failure, match=r"targets\.yaml cannot be opened"):
        _request(daily_submission_schedule, at)
    path.write_text("lists: {shops: {source: x, schedule: nonsense}}")
    assert list_schedules() == []

    path.write_text(LISTS)
    (shops,) = list_schedules()
    assert (shops.name, shops.cron_schedule) == ("shops_list_schedule", "30 6 * * *")
    request = _request(shops, at)
    assert isinstance(request, dg.RunRequest)
    assert (request.partition_key, request.run_config) == ("2026-03-29", lists_config(["shops"]))
    later = _request(shops, at.astimezone(ZoneInfo("UTC")).replace(hour=7))
    assert isinstance(later, dg.RunRequest)
    assert later.run_key != request.run_key
    assert isinstance(_request(daily_submission_schedule, at), dg.SkipReason)

    path.write_text(LISTS + "  rest: {source: x}\n")
    daily = _request(daily_submission_schedule, at)
    assert isinstance(daily, dg.RunRequest)
    assert daily.run_config == lists_config(["rest"])
    path.write_text("lists: {rest: {source: x}}\n")
    daily = _request(daily_submission_schedule, at)
    assert isinstance(daily, dg.RunRequest)
    assert not daily.run_config
