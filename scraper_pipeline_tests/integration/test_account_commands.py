"""Two accounts on the command line: each one's webhooks, and what is shown of both or of one."""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import click.testing
import pytest
from sqlalchemy import select

from scraper_pipeline.accounts import Accounts, lists_of, open_accounts
from scraper_pipeline.cli import main
from scraper_pipeline.ledger import LetterFilter, Target
from scraper_pipeline.ledger.schema import jobs, processed_events
from scraper_pipeline.lifecycle import Drain, Settlement, submit_jobs
from scraper_pipeline.local.processes import free_port
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.settings import load_settings
from scraper_pipeline_tests.integration.ledger.driving import rows
from scraper_pipeline_tests.integration.receiver.receiving import PATH, ReceiverProcess

KEYS = {"default": "key-d3fa017", "research": "key-re5ea7c4"}


@pytest.fixture(scope="module")
def services() -> Iterator[dict[str, SandboxServer]]:
    """A service for each account, which takes that account's key alone."""
    servers = {
        name: SandboxServer(
            SandboxConfig.model_validate(
                {"api_key": key, "min_delay": 0, "max_delay": 0.1, "fetch_timeout": 60}
            )
        )
        for name, key in KEYS.items()
    }
    with servers["default"], servers["research"]:
        yield servers


@pytest.fixture(scope="module")
def folder(services: dict[str, SandboxServer], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An operator's folder: the list of `default` has a page, that of `research` the same one and two more."""
    folder = tmp_path_factory.mktemp("accounts")
    key, accounts = folder / "research.key", folder / "accounts.yaml"
    key.write_text(KEYS["research"])
    key.chmod(0o600)
    host = services["research"].url
    accounts.write_text(
        f"accounts: {{research: {{api_key_file: research.key, host: '{host}', monthly_page_limit: 40}}}}\n"
    )
    site = f"{services['default'].url}/site"
    (folder / "mine.txt").write_text(f"{site}/pages/1\n")
    (folder / "theirs.txt").write_text(f"{site}/pages/1\n{site}/pages/2\n{site}/broken/1\n")
    (folder / "targets.yaml").write_text(
        "lists:\n  mine: {source: mine.txt}\n  theirs: {source: theirs.txt, account: research}\n"
    )
    return folder


@pytest.fixture(scope="module")
def accounts(folder: Path, services: dict[str, SandboxServer]) -> Iterator[Accounts]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "GEONODE_SCRAPER_API_KEY": KEYS["default"],
            "GEONODE_SCRAPER_HOST": services["default"].url,
            "GEONODE_WEBHOOK_SECRETS_FILE": str(folder / "webhook-secrets.json"),
            "SCRAPER_ACCOUNTS_FILE": str(folder / "accounts.yaml"),
            "SCRAPER_LEDGER_URL": f"sqlite:///{folder / 'ledger.db'}",
            "SCRAPER_TARGETS": str(folder / "targets.yaml"),
            "SCRAPER_SUBMISSION_MODE": "extract",
            "SCRAPER_DRAIN_QUIET_SECONDS": "1",
        }.items():
            patch.setenv(name, value)
        with open_accounts(load_settings()) as accounts:
            yield accounts


@dataclass(frozen=True)
class Before:
    """What the commands said before anything was sent."""

    plan: Any
    plan_of_research: Any
    plan_of_days: Any
    listed: Any


@pytest.fixture(scope="module")
def before(accounts: Accounts, folder: Path) -> Before:
    """A day of both accounts, from its plan to its end, of which a receiver for both has brought the news."""
    receiver = ReceiverProcess(f"sqlite:///{folder / 'ledger.db'}", folder, secrets=())
    receiver.port = free_port()
    url = f"http://127.0.0.1:{receiver.port}{PATH}"
    _run("webhooks", "register", "--url", url)
    _run("webhooks", "register", "--url", url, "--account", "research")
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    told = Before(
        _as_json("plan"),
        _as_json("plan", "--account", "research"),
        _as_json("plan", "--since", today),
        _as_json("webhooks", "list"),
    )
    for one in lists_of(load_settings()):
        targets = [entry for entry in one.read(date.fromisoformat(today)) if isinstance(entry, Target)]
        accounts[one.account].ledger.submissions.plan(today, targets, one.terms)
    with receiver:
        for account in accounts:
            asyncio.run(_submit(accounts, account.name, today))
        end = time.monotonic() + 60
        while len(rows(accounts.ledger, select(processed_events))) < 4:
            assert time.monotonic() < end, receiver.log()
            time.sleep(0.05)
    drain = Drain(
        {one.name: Settlement(one.ledger, one.open_client, [today], one.policy()) for one in accounts}
    )
    for chunk in drain.outcomes():
        for outcome in chunk:
            accounts[outcome.job.account].ledger.outcomes.commit([outcome])
    return told


async def _submit(accounts: Accounts, name: str, day: str) -> None:
    one = accounts[name]
    async with one.open_client() as client:
        await submit_jobs(one.ledger, client, day, one.policy())


def _run(*arguments: str, code: int = 0) -> str:
    result = click.testing.CliRunner().invoke(main, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


def _as_json(*arguments: str, code: int = 0) -> Any:
    result = click.testing.CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_what_a_day_costs_is_told_by_account_before_it_is_sent(before: Before) -> None:
    told = [
        (one["account"], one["to_submit"], one["pages_left_this_month"]) for one in before.plan["accounts"]
    ]
    assert told == [("default", 1, None), ("research", 3, 40)]
    assert (before.plan["targets"], before.plan_of_research["to_submit"]) == (4, 3)
    assert before.plan_of_days["days"][0]["missing_by_account"] == {"default": 1, "research": 3}
    assert "did you mean research?" in _run("plan", "--account", "reserch", code=1)


def test_one_receiver_files_each_event_under_the_account_that_its_secret_is_of(
    before: Before, accounts: Accounts, folder: Path
) -> None:
    assert [(one["account"], one["ours"]) for one in before.listed] == [("default", True), ("research", True)]
    kept = json.loads((folder / "webhook-secrets.json").read_text())["secrets"]
    assert [entry["account"] for entry in kept[:2]] == ["default", "research"]
    of_job = {row.job_id: row.account for row in rows(accounts.ledger, select(jobs))}
    events = rows(accounts.ledger, select(processed_events))
    assert {row.job_id: row.account for row in events} == of_job
    assert all(row.webhook_at and row.processed_at for row in events)


@pytest.mark.usefixtures("before")
def test_figures_are_over_both_accounts_or_of_one(
    accounts: Accounts, services: dict[str, SandboxServer]
) -> None:
    [day] = _as_json("status")["days"]
    assert (day["targets"], day["stored"], day["parked"]) == (4, 3, 1)
    [day] = _as_json("status", "--account", "research")["days"]
    assert (day["targets"], day["stored"], day["parked"]) == (3, 2, 1)
    costs = _as_json("costs", "--by", "account")
    assert {row["account"]: row["pages_paid"] for row in costs["rows"]} == {"default": 1, "research": 2}
    assert [
        (
            one["account"],
            one["service"]["pages_charged"],
            one["service"]["unexplained"],
            one["month"]["limit"],
        )
        for one in costs["accounts"]
    ] == [("default", 1, 0, None), ("research", 2, 0, 40)]
    assert _as_json("costs", "--account", "default")["service"]["pages_charged"] == 1
    listed = _as_json("dead-letters", "list")
    assert [letter["account"] for letter in listed["letters"]] == ["research"]
    assert _as_json("dead-letters", "list", "--account", "default")["total"] == 0
    sandboxes = [part for server in services.values() for part in ("--sandbox", server.url)]
    assert "clean" in _run("audit", *sandboxes)


@pytest.mark.usefixtures("before")
def test_secrets_are_rotated_and_deliveries_replayed_account_by_account(
    accounts: Accounts, services: dict[str, SandboxServer]
) -> None:
    job_ids = [row.job_id for row in rows(accounts.ledger, select(jobs))]
    asked = [part for job_id in [*job_ids, "a stranger's"] for part in ("--job", job_id)]
    report = _as_json("webhooks", "replay", *asked)
    assert (report["taken_up"], report["already_done"], report["not_ours"]) == (0, 4, 1)
    services["default"].set_faults(unauthorized=True)
    said = _run("webhooks", "rotate", code=1)
    services["default"].clear_faults()
    assert "1 secrets rotated" in said, "those of the account that can be asked"
    assert "The account default: " in said
    assert _as_json("webhooks", "rotate")["rotated"] == 2
    services["research"].set_faults(unauthorized=True)
    said = _run("webhooks", "list", "--account", "research", code=1)
    services["research"].clear_faults()
    assert "The account research: " in said
    assert "check its key, which SCRAPER_ACCOUNTS_FILE leads to" in said


@pytest.mark.usefixtures("before")
def test_the_doctor_tries_each_key_and_names_who_is_named_no_more(
    accounts: Accounts, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    [letter] = accounts["research"].ledger.letters.ids(LetterFilter())
    assert _as_json("dead-letters", "retry", str(letter))["planned"] == 1
    key, without = folder / "research.key", tmp_path / "accounts.yaml"
    key.chmod(0o644)
    without.write_text(f"accounts: {{prices: {{api_key_file: {key}}}, offers: {{api_key_file: {key}}}}}\n")
    monkeypatch.setenv("SCRAPER_ACCOUNTS_FILE", str(without))
    found = _as_json("doctor", code=1)["findings"]
    key.chmod(0o600)
    told = [(one["grade"], one["found"]) for one in found if one["check"] in ("key", "accounts")]
    for grade, said in (
        ("ok", "There are default, prices, offers."),
        ("problem", "prices and offers have the same key: to the service they are one account."),
        ("problem", f"{key}, the key of the account prices, is open to everybody on this machine."),
        ("ok", "default: The key is accepted; 0 of the account's 100 places are taken."),
        ("problem", "prices: The service does not know the key (401)."),
        ("problem", "1 targets of the account research are not settled, and nothing names it."),
    ):
        assert (grade, said) in told
    advice = {one["found"]: one["to_do"] for one in found}["prices: The service does not know the key (401)."]
    assert advice == "Correct its key, which SCRAPER_ACCOUNTS_FILE leads to: the dashboard shows the key."
    said = _run("audit", code=1)
    assert "The account research has rows, and nothing names it any more." in said
    assert "open_is_named" in said
    [day] = _as_json("status")["days"]
    assert day["targets"] == 4, "its rows are shown all the same"
