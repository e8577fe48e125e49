"""A day of two accounts, each with a service that takes its key alone: what stops one stops no other."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Channel, Ledger
from scraper_pipeline.ledger.schema import results
from scraper_pipeline.lifecycle import SUBMIT_LEASE
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.target_lists import make_target
from scraper_pipeline_tests.integration.dagster.conftest import API_KEY
from scraper_pipeline_tests.integration.dagster.driving import (
    DAY,
    TERMINAL,
    Pipeline,
    checks_of,
    failures_of,
    metadata_of,
    observed,
    on_sqlite,
    wait_for,
)

pytestmark = on_sqlite
RESEARCH_KEY = "key-re5ea7c4"


@pytest.fixture
def sandbox() -> Iterator[SandboxServer]:
    """The default account's service."""
    with SandboxServer(_config(API_KEY)) as server:
        yield server


@pytest.fixture
def other() -> Iterator[SandboxServer]:
    """The service of the account `research`."""
    with SandboxServer(_config(RESEARCH_KEY)) as server:
        yield server


def _config(key: str) -> SandboxConfig:
    return SandboxConfig.model_validate({"api_key": key, "min_delay": 0, "max_delay": 0, "fetch_timeout": 20})


@pytest.fixture
def research(
    pipeline: Pipeline, other: SandboxServer, environment: pytest.MonkeyPatch, tmp_path: Path
) -> Ledger:
    """The ledger of the account `research`, for which every list but one is."""
    (tmp_path / "research.key").write_text(RESEARCH_KEY)
    accounts, lists = tmp_path / "accounts.yaml", tmp_path / "targets.yaml"
    accounts.write_text(f"accounts: {{research: {{api_key_file: research.key, host: '{other.url}'}}}}\n")
    (tmp_path / "mine.txt").write_text(f"{pipeline.sandbox.url}/site/pages/1\n")
    (tmp_path / "theirs.txt").write_text(
        f"{pipeline.sandbox.url}/site/pages/1\n{other.url}/site/pages/2\n{other.url}/site/pages/3\n"
    )
    lists.write_text(
        "lists:\n  mine: {source: mine.txt}\n  theirs: {source: theirs.txt, account: research}\n"
    )
    environment.setenv("SCRAPER_ACCOUNTS_FILE", str(accounts))
    environment.setenv("SCRAPER_TARGETS", str(lists))
    return pipeline.ledger.of_account("research")


def _wait_for_ends(service: SandboxServer) -> None:
    wait_for(lambda: all(job["status"] in TERMINAL for job in service.truth()["jobs"]))


def _bring_news(ledger: Ledger, service: SandboxServer) -> None:
    _wait_for_ends(service)
    ledger.news.record([job["job_id"] for job in service.truth()["jobs"]], Channel.POLL)


def _is_settled_in(pipeline: Pipeline) -> tuple[bool, bool]:
    return tuple(  # type: ignore[return-value]
        pipeline.ledger.of_account(name).progress.of(DAY).is_settled for name in ("default", "research")
    )


def test_a_day_turns_green_when_both_accounts_are_settled_and_not_before(
    pipeline: Pipeline, research: Ledger, other: SandboxServer, environment: pytest.MonkeyPatch
) -> None:
    """An account out of balance is told when the other one is done, and the day goes on once that is mended."""
    other.set_faults(balance=0)
    submitted = pipeline.submit()
    [failure] = failures_of(submitted)
    assert "The account research is stopped" in failure
    assert "Top up the account's balance" in failure
    assert observed(submitted)["submitted_jobs", DAY]["planned"] == 3
    assert [job["url"] for job in pipeline.jobs()] == [f"{pipeline.sandbox.url}/site/pages/1"]
    assert other.truth()["jobs"] == []
    assert pipeline.ledger.progress.of(DAY).accepted == 1
    assert research.progress.of(DAY).planned == 3
    assert pipeline.asked() <= {("settle_jobs", DAY)}, "nothing more is submitted for one that was refused"

    _bring_news(pipeline.ledger, pipeline.sandbox)
    pipeline.end_request_leases_but_holds()
    settled = pipeline.settle()
    assert settled.success
    assert _is_settled_in(pipeline) == (True, False)
    assert not pipeline.is_settled_in_dagster()
    assert observed(settled)["stored_results", DAY]["in_flight"] == 3

    other.clear_faults()
    pipeline.ledger.leases.take(SUBMIT_LEASE, DAY, "the sensor's request", 60)
    submitted = pipeline.submit()
    assert submitted.success
    assert pipeline.ledger.leases.live(SUBMIT_LEASE) == set(), "the request is met"
    assert checks_of(submitted)["nothing_waits"]
    assert len(pipeline.jobs()) == 1, "what is settled is not submitted again"
    assert len(other.truth()["jobs"]) == 3
    _bring_news(research, other)
    settled = pipeline.settle()
    assert settled.success
    assert _is_settled_in(pipeline) == (True, True)
    assert pipeline.is_green()
    shown = metadata_of(settled)["stored_results", DAY]
    assert (shown["targets"], shown["stored"], shown["pages"]) == (4, 4, 4)
    with pipeline.ledger.engine.connect() as connection:
        stored = connection.execute(select(results.c.account, results.c.url)).all()
    assert sorted(row.account for row in stored) == ["default", "research", "research", "research"]
    assert len({row.url for row in stored}) == 3, "one page is of both accounts"

    published = pipeline.run("publish_pages")
    assert metadata_of(published)["pages", DAY]["rows"] == 4
    environment.delenv("SCRAPER_ACCOUNTS_FILE")
    environment.setenv("SCRAPER_TARGETS", "nowhere.txt")
    [failure] = failures_of(pipeline.run("publish_pages"))
    assert "has pages of the account research, which nothing names any more" in failure


def test_ticks_and_sweeps_go_on_for_one_account_while_the_other_is_refused(
    pipeline: Pipeline, research: Ledger, other: SandboxServer
) -> None:
    for ledger, service in ((pipeline.ledger, pipeline.sandbox), (research, other)):
        ledger.submissions.plan(DAY, [make_target(f"{service.url}/site/pages/1")])
    assert pipeline.asked() == {("submit_jobs", DAY)}, "one run for both"
    assert pipeline.submit().success
    pipeline.end_request_leases()
    for service in (pipeline.sandbox, other):
        _wait_for_ends(service)
    other.set_faults(unauthorized=True)
    pipeline.execute("UPDATE jobs SET next_look_at = accepted_at")
    assert pipeline.asked() == {("settle_jobs", DAY)}, "of the account that can be asked"

    pipeline.end_request_leases()
    swept = pipeline.run("reconcile_jobs", None)
    [failure] = failures_of(swept)
    assert "The account research is stopped" in failure
    assert "Check its key" in failure
    assert _is_settled_in(pipeline) == (True, False), "what was found of the other is settled before"
    assert pipeline.ledger.sweeps.last() is not None
    assert research.sweeps.last() is None
    assert not pipeline.is_settled_in_dagster()

    pipeline.end_request_leases()
    pipeline.execute("UPDATE jobs SET next_look_at = accepted_at WHERE next_look_at IS NOT NULL")
    with pytest.raises(dg.Failure, match=r"The account research is stopped: .*Check its key"):
        pipeline.tick()
    other.clear_faults()
    _bring_news(research, other)
    assert pipeline.run("reconcile_jobs", None).success
    assert _is_settled_in(pipeline) == (True, True)
    assert pipeline.is_settled_in_dagster()
