"""The commands around webhooks: what they say, what they never say, and how they fail."""

import asyncio
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click.testing
import pytest

from scraper_pipeline.cli import main
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.lifecycle import replay_deliveries
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.scraper_api import ScraperClient
from scraper_pipeline.webhook_secrets import SecretsFile
from scraper_pipeline_tests.integration.ledger.driving import accept, finish, page
from scraper_pipeline_tests.integration.sandbox.receiver import Receiver
from scraper_pipeline_tests.integration.webhooks.signing import calls


@pytest.fixture
def offered() -> bool:
    return True


@pytest.fixture
def sandbox(offered: bool) -> Iterator[SandboxServer]:
    config = SandboxConfig(min_delay=0, max_delay=0, webhooks_offered=offered, webhook_retry_schedule=())
    with SandboxServer(config) as server:
        yield server


@pytest.fixture(autouse=True)
def environ(
    sandbox: SandboxServer, fresh_sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "GEONODE_SCRAPER_API_KEY": "key-5c0ffee5ecre7",
        "GEONODE_SCRAPER_HOST": sandbox.url,
        "SCRAPER_LEDGER_URL": fresh_sqlite_url,
        "GEONODE_WEBHOOK_SECRETS_FILE": str(tmp_path / "webhook-secrets.json"),
        "SCRAPER_SUBMISSION_MODE": "extract",  # one type of event, and so one webhook
    }.items():
        monkeypatch.setenv(name, value)


def run(*arguments: str, code: int = 0) -> str:
    result = click.testing.CliRunner().invoke(main, ["webhooks", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def _as_json(*arguments: str) -> object:
    return json.loads(run(*arguments, "--json"))


def test_a_webhook_is_registered_found_again_switched_off_and_on_and_removed(
    sandbox: SandboxServer, receiver: Receiver, tmp_path: Path
) -> None:
    assert "There are none." in run("list")
    assert "  registered\n" in run("register", "--url", receiver.url)
    assert "  there already\n" in run("register", "--url", receiver.url)
    [listed] = json.loads(run("list", "--json"))
    assert (listed["active"], listed["ours"], listed["secret_known"]) == (True, True, True)
    assert f"{listed['webhook_id']} is switched off." in run("disable")
    assert json.loads(run("list", "--json"))[0]["active"] is False
    run("register", "--url", receiver.url)
    assert json.loads(run("list", "--json"))[0]["active"] is True
    assert f"{listed['webhook_id']} is removed." in run("remove")
    assert json.loads(run("list", "--json")) == []
    assert SecretsFile(tmp_path / "webhook-secrets.json").read() == ()
    assert "No such webhook is registered here" in run("remove", code=1)


def test_what_was_done_to_webhooks_is_told_to_programs(receiver: Receiver) -> None:
    [made] = json.loads(run("register", "--url", receiver.url, "--json"))
    assert (made["event_type"], made["url"], made["outcome"]) == (
        "extract_completed",
        receiver.url,
        "registered",
    )
    assert _as_json("rotate") == {"rotated": 1, "replayed": 0, "gone": 0}
    assert _as_json("disable") == {"disabled": [made["webhook_id"]]}
    assert _as_json("remove") == {"removed": [made["webhook_id"]]}


def test_a_replay_tells_how_far_it_has_read_the_log(
    sandbox: SandboxServer, receiver: Receiver, fresh_sqlite_url: str
) -> None:
    run("register", "--url", receiver.url)
    asyncio.run(_submit(sandbox, 1))
    receiver.wait(1)
    read: list[int] = []

    async def replay() -> None:
        with Ledger.open(fresh_sqlite_url) as ledger:
            async with ScraperClient(host=sandbox.url, api_key="any") as client:
                since = datetime.now(UTC) - timedelta(hours=1)
                await replay_deliveries(
                    ledger, client, since=since, on_page=lambda report: read.append(report.attempts)
                )

    asyncio.run(replay())
    assert read == [1]


def test_batches_and_crawls_get_webhooks_of_their_own_where_they_are_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_SUBMISSION_MODE", "auto")
    run("register", "--url", receiver.url)
    types = {webhook["event_type"] for webhook in json.loads(run("list", "--json"))}
    assert types == {"extract_completed", "batch_completed", "crawl_completed"}


def test_a_webhook_that_is_gone_at_the_service_can_still_be_rotated_and_removed(
    sandbox: SandboxServer, receiver: Receiver
) -> None:
    run("register", "--url", receiver.url)
    [listed] = json.loads(run("list", "--json"))
    asyncio.run(_delete(sandbox, listed["webhook_id"]))
    assert "1 webhooks are gone" in run("rotate")
    assert "was gone already" in run("remove")


async def _delete(sandbox: SandboxServer, webhook_id: str) -> None:
    async with ScraperClient(host=sandbox.url, api_key="any") as client:
        await client.delete_webhook(webhook_id)


async def _submit(sandbox: SandboxServer, number: int) -> None:
    async with ScraperClient(host=sandbox.url, api_key="any") as client:
        await client.submit_extract(f"{sandbox.url}/site/pages/{number}")


@pytest.mark.parametrize("offered", [False])
@pytest.mark.parametrize("arguments", [("register", "--url", "http://127.0.0.1:9/"), ("list",)])
def test_where_webhooks_are_not_offered_the_command_says_that_polling_goes_on(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    said = run(*arguments, code=1)
    assert "does not offer webhooks yet" in said
    assert "Nothing has to be done: polling goes on bringing the news." in said
    assert not (tmp_path / "webhook-secrets.json").exists()


def test_no_secret_is_ever_said(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture, sandbox: SandboxServer
) -> None:
    caplog.set_level(logging.DEBUG)
    file = SecretsFile(tmp_path / "webhook-secrets.json")
    said = run("register", "--url", receiver.url) + run("register", "--url", receiver.url)
    secrets = set(_values(file))
    said += run("rotate") + run("list") + run("list", "--json") + run("deliveries")
    secrets |= set(_values(file))
    sandbox.set_faults(webhook_answer_lost=True)
    said += run("rotate", code=1)
    sandbox.clear_faults()
    said += run("rotate", "--leaked") + run("replay", "--since", "1h") + run("disable")
    secrets |= set(_values(file))
    said += repr(file) + repr(file.read()) + str(file.read()) + run("remove")
    assert len(secrets) >= 3
    for secret in secrets:
        assert secret not in said + caplog.text
        assert secret.removeprefix("whsec_") not in said + caplog.text


def _values(file: SecretsFile) -> list[str]:
    return [entry.secret.get_secret_value() for entry in file.read()]


def test_a_broken_secrets_file_is_named_and_nothing_is_rotated(
    sandbox: SandboxServer, receiver: Receiver, tmp_path: Path
) -> None:
    run("register", "--url", receiver.url)
    (tmp_path / "webhook-secrets.json").write_text("half a fi")
    said = run("rotate", code=1)
    assert "webhook-secrets.json is no file of webhook secrets" in said
    assert said.count("\n") == 1
    assert calls(sandbox, "/rotate-secret") == 0


def test_deliveries_are_shown_by_outcome(
    sandbox: SandboxServer, receiver: Receiver, fresh_sqlite_url: str
) -> None:
    run("register", "--url", receiver.url)
    receiver.statuses = [200, 401]
    for number in (1, 2):
        asyncio.run(_submit(sandbox, number))
        receiver.wait(number)
    while (shown := json.loads(run("deliveries", "--json")))["acknowledged"] + len(shown["refused"]) < 2:
        pass
    assert (shown["attempts"], shown["acknowledged"], shown["refused"]) == (2, 1, {"401": 1})
    assert "refused: {'401': 1}" in run("deliveries", "--since", "2h")


def test_a_replay_tells_what_was_left_to_do(fresh_sqlite_url: str, receiver: Receiver) -> None:
    with Ledger.open(fresh_sqlite_url) as ledger:
        open_job, done_job = accept(ledger, "https://site.test/a", "https://site.test/b")
        finish(ledger, {done_job: page()})
    chosen = ("--job", open_job, "--job", done_job, "--job", "a stranger")
    said = run("replay", *chosen)
    assert "1 jobs taken up again, 1 already done with nothing left to do, 1 not of this ledger." in said
    assert _as_json("replay", *chosen) == {"taken_up": 1, "already_done": 1, "not_ours": 1}
    run("register", "--url", receiver.url)
    assert _as_json("replay", "--since", "2026-01-31T06:00:00Z") == {
        "taken_up": 0,
        "already_done": 0,
        "not_ours": 0,
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("replay",), "Say what to replay: --since or --job."),
        (("replay", "--since", "yesterday"), "--since takes a time such as 2026-01-31T06:00:00Z or an age"),
        (("replay", "--since", "6x"), "an age such as 6h"),
        (("deliveries", "--since", "-1h"), "--since takes a time"),
        (("register",), "Missing option '--url'"),
    ],
)
def test_a_command_that_can_not_be_understood_says_what_it_takes(
    arguments: tuple[str, ...], complaint: str
) -> None:
    assert complaint in run(*arguments, code=2).replace("\n", " ")
