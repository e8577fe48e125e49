"""What one page and one delivery show of a service, and that no webhook is left behind, whatever ends the check."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import httpx
import pytest

from scraper_pipeline.accounts import client
from scraper_pipeline.checkup.findings import Finding
from scraper_pipeline.checkup.live import Mailbox, Trial, check_live
from scraper_pipeline.checkup.live.endpoint import Endpoint, RawDelivery
from scraper_pipeline.local.processes import free_port
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.scraper_api import RetryPolicy, ScraperClient
from scraper_pipeline.settings import Settings, load_settings
from scraper_pipeline_tests.integration.sandbox.receiver import Receiver

HTTP = httpx.Client(headers={"X-Api-Key": "k"}, trust_env=False, timeout=60)
QUICK: dict[str, Any] = {
    "min_delay": 0.0,
    "max_delay": 0.0,
    "fetch_timeout": 60,
    "webhook_retry_schedule": (0.05, 0.1),
    "webhook_timeout": 60,
}


@pytest.fixture(autouse=True)
def quick_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets are as ever, but their waits are hundredths of seconds."""
    monkeypatch.setattr(client, "ScraperClient", partial(ScraperClient, policy=RetryPolicy(first_wait=0.01)))


@pytest.fixture(scope="module")
def server() -> Iterator[SandboxServer]:
    with HTTP, SandboxServer(SandboxConfig(**QUICK)) as server:
        yield server


@pytest.fixture
def sandbox(server: SandboxServer) -> Iterator[SandboxServer]:
    yield server
    server.clear_faults()
    assert _webhooks(server) == []


def _webhooks(sandbox: SandboxServer) -> list[dict[str, object]]:
    items: list[dict[str, object]] = HTTP.get(f"{sandbox.url}/v1/webhooks").json()["items"]
    return items


def _deliveries_of_the_last_job(sandbox: SandboxServer) -> dict[str, Any]:
    while not (tally := sandbox.truth()["jobs"][-1]["deliveries"])["attempts"]:
        time.sleep(0.01)
    return dict(tally)


def _wait_for_webhook(sandbox: SandboxServer) -> None:
    while not _webhooks(sandbox):
        time.sleep(0.01)


@pytest.fixture
def brief_silence(sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the service has tried, a delivery is awaited for a moment more."""
    wait_for = Endpoint.wait_for

    async def wait_a_moment(
        endpoint: Endpoint, wanted: Callable[[RawDelivery], bool], seconds: float
    ) -> RawDelivery | None:
        await asyncio.to_thread(_deliveries_of_the_last_job, sandbox)
        return await wait_for(endpoint, wanted, 0.05)

    monkeypatch.setattr(Endpoint, "wait_for", wait_a_moment)


def _settings(sandbox: SandboxServer, environ: Mapping[str, str]) -> Settings:
    return load_settings({"GEONODE_SCRAPER_API_KEY": "k", "GEONODE_SCRAPER_HOST": sandbox.url, **environ})


def _mailbox(at: int | None = None) -> Mailbox:
    port = free_port()
    return Mailbox(f"http://127.0.0.1:{at or port}/hook", "127.0.0.1", port)


async def _look(
    sandbox: SandboxServer,
    mailbox: Mailbox | None = None,
    environ: Mapping[str, str] = {},
    *,
    page: str = "/site/pages/1",
    wait: float = 60.0,
    told: list[str] | None = None,
) -> list[Finding]:
    trial = Trial(f"{sandbox.url}{page}", wait, pause=0.02)
    return await check_live(
        _settings(sandbox, environ), trial, mailbox, (told if told is not None else []).append
    )


def _bad(found: list[Finding]) -> list[Finding]:
    return [one for one in found if str(one.grade) != "ok"]


async def test_a_service_as_the_reference_has_it_fits_the_defaults_for_one_page(
    sandbox: SandboxServer,
) -> None:
    paid = sandbox.truth()["charged"]
    found = await _look(sandbox, _mailbox())
    assert _bad(found) == []
    assert sandbox.truth()["charged"] == paid + 1
    said = " ".join(one.said for one in found)
    for seen in (
        "Batches are offered",
        "Webhooks are offered",
        "listed under `jobs`",
        "SCRAPER_MARK_URLS can be set",
        "signed in X-Webhook-Signature as hex",
        "the job at `data.job_id`",
        "the delivery's id at `delivery_id`",
    ):
        assert seen in said


async def test_a_service_that_spells_everything_otherwise_is_found_out_and_then_fits() -> None:
    config = SandboxConfig(
        **QUICK,
        listing_key="items",
        echo_urls="without_fragment",
        batches_offered=False,
        crawls_offered=False,
        webhook_signature="base64",
        webhook_signature_header="X-Geonode-Sig",
        webhook_payload="foreign",
    )
    ours = {
        "SCRAPER_SUBMISSION_MODE": "batch",
        "SCRAPER_MARK_URLS": "true",
        "SCRAPER_SIGNATURE_SCHEMES": "hex",
    }
    with SandboxServer(config) as sandbox:
        found = await _look(sandbox, _mailbox(), ours)
        wanted = {name: value for one in found for name, value in one.to_set.items()}
        again = await _look(sandbox, _mailbox(), ours | wanted)
    assert wanted == {
        "SCRAPER_SUBMISSION_MODE": "auto",
        "SCRAPER_MARK_URLS": "false",
        "GEONODE_SIGNATURE_HEADER": "X-Geonode-Sig",
        "SCRAPER_SIGNATURE_SCHEMES": "base64",
        "SCRAPER_WEBHOOK_JOB_ID_PATHS": "about.job",
    }
    assert any("listed under `items`" in one.said for one in found)
    assert all(one.is_problem for one in found if one.to_set)
    assert _bad(again) == []


async def test_signatures_by_the_standard_are_told_by_their_scheme_alone() -> None:
    with SandboxServer(
        SandboxConfig(**QUICK, webhook_signature="standard", webhook_payload="guide")
    ) as sandbox:
        found = await _look(sandbox, _mailbox())
        assert [dict(one.to_set) for one in _bad(found)] == [{"SCRAPER_SIGNATURE_SCHEMES": "standard"}]
        assert _bad(await _look(sandbox, _mailbox(), {"SCRAPER_SIGNATURE_SCHEMES": "standard"})) == []


async def test_where_webhooks_are_not_offered_the_page_is_looked_at_all_the_same() -> None:
    with SandboxServer(SandboxConfig(**QUICK, webhooks_offered=False)) as sandbox:
        found = await _look(sandbox, _mailbox())
    assert _bad(found) == []
    said = " ".join(one.said for one in found)
    assert "Webhooks are not offered: polling brings the news." in said
    assert "listed under `jobs`" in said


async def test_a_page_that_fails_shows_what_it_can_and_is_not_paid(sandbox: SandboxServer) -> None:
    paid = sandbox.truth()["charged"]
    [bad] = _bad(await _look(sandbox, page="/site/broken/1"))
    assert (str(bad.grade), "PERMANENT_BLOCK" in bad.said) == ("warning", True)
    assert sandbox.truth()["charged"] == paid


async def test_a_refused_submission_ends_the_check_with_its_reason(sandbox: SandboxServer) -> None:
    sandbox.set_faults(payment_required=True)
    [bad] = _bad(await _look(sandbox, _mailbox()))
    assert "402" in bad.said


@pytest.mark.usefixtures("brief_silence")
async def test_a_url_that_leads_to_somebody_else_is_told_by_what_they_answered(
    sandbox: SandboxServer,
) -> None:
    with Receiver() as receiver:
        receiver.statuses = [401] * 5
        mailbox = _mailbox(at=int(receiver.url.split(":")[2].split("/")[0]))
        [bad] = _bad(await _look(sandbox, mailbox))
    assert "somebody else has answered 401" in bad.said
    assert f"127.0.0.1:{mailbox.port}" in bad.advice


@pytest.mark.usefixtures("brief_silence")
async def test_a_url_that_leads_to_nobody_is_told_by_the_log(sandbox: SandboxServer) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        [bad] = _bad(await _look(sandbox, _mailbox(at=nobody.getsockname()[1])))
    assert "reached nobody" in bad.said


async def test_what_the_webhooks_secret_has_not_signed_is_not_acknowledged(sandbox: SandboxServer) -> None:
    sandbox.set_faults(webhook_wrong_signature=True)
    found = await _look(sandbox, _mailbox())
    [bad] = _bad(found)
    assert "Nothing in its headers" in bad.said
    assert "X-Webhook-Signature" in bad.said
    tally = await asyncio.to_thread(_deliveries_of_the_last_job, sandbox)
    assert (tally["acknowledged"], tally["last_http_status"]) == (0, 503)


async def test_an_interrupted_check_removes_its_webhook(sandbox: SandboxServer) -> None:
    sandbox.set_faults(never_finish=True)
    task = asyncio.create_task(_look(sandbox, _mailbox()))
    await asyncio.to_thread(_wait_for_webhook, sandbox)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _webhooks(sandbox) == []


async def test_a_webhook_whose_answer_was_lost_is_removed_as_well(sandbox: SandboxServer) -> None:
    sandbox.set_faults(webhook_answer_lost={"count": 1, "on": "create_webhook"})
    [bad] = _bad(await _look(sandbox, _mailbox()))
    assert bad.is_problem
    assert sandbox.faults()["struck"]["webhook_answer_lost"] >= 1


async def test_a_webhook_that_can_not_be_removed_is_told_at_once_and_goes_with_the_next_check(
    sandbox: SandboxServer,
) -> None:
    told: list[str] = []
    mailbox = _mailbox()
    wait_for = Endpoint.wait_for

    async def fail_from_here(
        endpoint: Endpoint, wanted: Callable[[RawDelivery], bool], seconds: float
    ) -> RawDelivery | None:
        sandbox.set_faults(webhook_500=True)
        return await wait_for(endpoint, wanted, seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Endpoint, "wait_for", fail_from_here)
        found = await _look(sandbox, mailbox, told=told)
    assert any("was not removed" in one.said for one in _bad(found))
    assert "was not removed" in told[0]
    sandbox.clear_faults()
    assert len(_webhooks(sandbox)) == 1
    assert _bad(await _look(sandbox, mailbox)) == []
