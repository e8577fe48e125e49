"""What can go wrong outside: each gives one clear message in the run's failure, and nothing is lost by it."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import make_url

from scraper_pipeline.accounts import client
from scraper_pipeline.ledger.schema import run_leases
from scraper_pipeline.scraper_api import ScraperClient
from scraper_pipeline_tests.integration.dagster.conftest import API_KEY
from scraper_pipeline_tests.integration.dagster.driving import (
    DAY,
    Pipeline,
    failures_of,
    metadata_of,
    on_sqlite,
)
from scraper_pipeline_tests.integration.dagster.secrecy import everything_said

TEN = tuple(f"pages/{number}" for number in range(1, 11))


def _the_message(pipeline: Pipeline, job: str = "submit_jobs") -> str:
    """Run a job that has to fail, with one message of one line."""
    run = pipeline.run(job)
    assert not run.success
    (message,) = failures_of(run)
    assert "\n" not in message
    assert "Traceback" not in message
    assert API_KEY not in everything_said(pipeline.instance)
    return message


def _recovers(pipeline: Pipeline) -> None:
    """Once the cause is gone, the next runs take everything up, and nothing was paid twice."""
    assert pipeline.submit().success
    pipeline.bring_news()
    assert pipeline.settle().success
    assert pipeline.is_green()
    assert pipeline.progress().stored == pipeline.progress().targets
    assert pipeline.audit() == []


@on_sqlite
def test_a_wrong_key_stops_the_run_and_leaves_everything_planned(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_CONCURRENCY", "2")
    pipeline.ask_for(*TEN)
    pipeline.sandbox.set_faults(unauthorized=True)

    message = _the_message(pipeline)

    assert "401" in message
    assert "GEONODE_SCRAPER_API_KEY" in message
    assert pipeline.progress().planned == 10
    assert pipeline.posts() <= 2, "what would be refused all the same is not sent"
    pipeline.sandbox.clear_faults()
    _recovers(pipeline)


def test_an_empty_balance_stops_the_run_and_leaves_the_rest_planned(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_CONCURRENCY", "1")
    pipeline.ask_for(*TEN)
    pipeline.sandbox.set_faults(balance=3)

    message = _the_message(pipeline)

    assert "402" in message
    assert "balance" in message
    progress = pipeline.progress()
    assert (progress.sending, progress.planned + progress.accepted) == (0, 10)
    assert progress.planned
    pipeline.sandbox.clear_faults()
    _recovers(pipeline)


@pytest.mark.usefixtures("hasty_client")
@on_sqlite
def test_a_host_that_refuses_connections_leaves_everything_planned(
    pipeline: Pipeline, refusing_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.ask_for(*TEN)
    monkeypatch.setenv("GEONODE_SCRAPER_HOST", refusing_host)

    message = _the_message(pipeline)

    assert "Nothing is lost" in message
    assert pipeline.progress().planned == 10
    monkeypatch.setenv("GEONODE_SCRAPER_HOST", pipeline.sandbox.url)
    _recovers(pipeline)


@on_sqlite
@pytest.mark.usefixtures("impatient_client")
def test_a_host_that_never_answers_leaves_nothing_that_is_not_looked_up_before_it_is_sent_again(
    pipeline: Pipeline, silent_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.ask_for(*TEN)
    monkeypatch.setenv("GEONODE_SCRAPER_HOST", silent_host)

    message = _the_message(pipeline)

    monkeypatch.setattr(client, "ScraperClient", ScraperClient)  # which is as patient as ever
    assert "Nothing is lost" in message
    assert pipeline.progress().sending == 10, "whether jobs were made is not known"
    monkeypatch.setenv("GEONODE_SCRAPER_HOST", pipeline.sandbox.url)
    assert pipeline.submit().success
    assert pipeline.posts() == 0, "before the grace is over nothing is sent again"

    pipeline.execute(
        "UPDATE submissions SET sent_at = '2026-01-05 00:00:00', lease_until = '2026-01-05 00:01:00'"
    )
    monkeypatch.setenv("SCRAPER_UNRESOLVED_AFTER_SECONDS", "31000000")
    _recovers(pipeline)
    assert pipeline.posts() == 10


@on_sqlite
def test_a_key_that_is_withdrawn_before_results_are_fetched_fails_the_settle_run_and_gives_its_jobs_back(
    pipeline: Pipeline,
) -> None:
    pipeline.ask_for(*TEN)
    pipeline.submit()
    pipeline.bring_news()
    pipeline.sandbox.set_faults(unauthorized=True)

    message = _the_message(pipeline, "settle_jobs")

    assert "GEONODE_SCRAPER_API_KEY" in message
    assert not pipeline.is_settled_in_dagster()
    pipeline.sandbox.clear_faults()
    assert pipeline.settle().success
    assert pipeline.is_green()
    assert pipeline.audit() == []


LISTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "No such file"),
    "without a url column": (
        lambda path: path.write_text("address,name\nhttp://a.example/,a\n"),
        "no column `url`",
    ),
    "a folder": (lambda path: path.mkdir(), "Is a directory"),
    "latin-1": (lambda path: path.write_bytes(b"url\nhttp://a.example/caf\xe9\n"), "UTF-8"),
}


@pytest.mark.parametrize("name", LISTS)
@on_sqlite
def test_a_list_that_cannot_be_used_is_named_with_what_is_wrong(
    name: str, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make, said = LISTS[name]
    path = tmp_path / "customers.csv"
    make(path)
    monkeypatch.setenv("SCRAPER_TARGETS", str(path))

    message = _the_message(pipeline)

    assert said in message
    assert "customers.csv" in message
    assert pipeline.posts() == pipeline.progress().targets == 0


@on_sqlite
def test_a_list_that_breaks_later_leaves_what_was_planned_before(pipeline: Pipeline) -> None:
    pipeline.ask_for(*TEN)
    pipeline.submit_at_most(4)
    pipeline.target_list.unlink()
    _the_message(pipeline)
    assert pipeline.progress().targets == 10
    pipeline.ask_for(TEN[0])
    _recovers(pipeline)


@on_sqlite
def test_an_empty_list_is_a_warning_and_no_failure(pipeline: Pipeline) -> None:
    pipeline.target_list.write_text("# nothing yet\n")
    run = pipeline.submit()
    assert run.success
    assert metadata_of(run)["targets", DAY]["targets"] == 0
    assert "has no usable target" in everything_said(pipeline.instance)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("SCRAPER_CONCURRENCY", "many", "SCRAPER_CONCURRENCY takes a whole number"),
        ("GEONODE_SCRAPER_HOST", "http://scraper.example", "GEONODE_SCRAPER_HOST takes an https URL"),
        ("GEONODE_SCRAPER_API_KEY", "", "GEONODE_SCRAPER_API_KEY is not set"),
        ("SCRAPER_LEDGER_URL", "mysql://root:hidden@host/db", "SCRAPER_LEDGER_URL takes sqlite"),
    ],
)
@on_sqlite
def test_a_wrong_setting_is_named_with_what_it_takes(
    variable: str, value: str, said: str, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.ask_for(*TEN)
    monkeypatch.setenv(variable, value)
    message = _the_message(pipeline)
    assert said in message
    assert "hidden" not in everything_said(pipeline.instance)


@pytest.mark.postgres
@on_sqlite
def test_a_ledger_that_cannot_be_opened_is_named_without_its_password(
    pipeline: Pipeline, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.ask_for(*TEN)
    wrong = make_url(postgres_url).set(password="not-the-password")
    monkeypatch.setenv("SCRAPER_LEDGER_URL", wrong.render_as_string(hide_password=False))
    message = _the_message(pipeline)
    assert "The ledger at postgresql" in message
    assert "SCRAPER_LEDGER_URL" in message
    assert "not-the-password" not in everything_said(pipeline.instance)


@on_sqlite
def test_a_refused_account_is_not_hammered_by_runs_that_must_fail(pipeline: Pipeline) -> None:
    pipeline.ask_for("pages/1", "pages/2")
    pipeline.sandbox.set_faults(payment_required=True)
    assert not pipeline.submit().success
    pipeline.execute("DELETE FROM run_leases WHERE name = 'submit'")  # as time would
    answer = pipeline.tick_answer()
    assert isinstance(answer, dg.SkipReason)
    assert "refused the account" in str(answer.skip_message)
    pipeline.sandbox.clear_faults()
    assert pipeline.submit().success, "who launches it by hand need not wait"
    assert pipeline.progress().accepted == 2
    assert pipeline.count(run_leases, run_leases.c.name == "refused") == 0
