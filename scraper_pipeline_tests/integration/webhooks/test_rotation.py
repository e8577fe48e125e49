"""Rotation: both secrets are accepted for a while, and what was refused in between comes back through the log."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Channel
from scraper_pipeline.ledger.schema import processed_events
from scraper_pipeline.ledger.webhooks import WebhookStore
from scraper_pipeline.lifecycle import register_webhooks, registration, rotate_secrets
from scraper_pipeline.lifecycle.registration import RotationReport
from scraper_pipeline.local.processes import free_port
from scraper_pipeline.scraper_api import NetworkError, ServerError
from scraper_pipeline.webhook_secrets import SecretsFile
from scraper_pipeline_tests.integration.dagster.driving import wait_for
from scraper_pipeline_tests.integration.ledger.driving import rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World
from scraper_pipeline_tests.integration.receiver.receiving import PATH, ReceiverProcess
from scraper_pipeline_tests.integration.sandbox.receiver import Receiver
from scraper_pipeline_tests.integration.webhooks.signing import (
    calls,
    is_signed_by_one_of,
    is_signed_by_the_newest,
)

ROTATIONS = "/rotate-secret"
on_one_database = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)


class Killed(BaseException):
    """The process ends here."""


async def register(world: World, secrets: SecretsFile, url: str) -> str:
    async with world.client() as client:
        report = await register_webhooks(world.ledger, client, secrets, url)
    [webhook] = report.created
    return webhook.webhook_id


async def rotate(world: World, secrets: SecretsFile, **options: Any) -> RotationReport:
    async with world.client() as client:
        return await rotate_secrets(world.ledger, client, secrets, **options)


async def rotate_unseen(world: World, webhook_id: str) -> None:
    """The service has a new secret, and nobody of ours knows it."""
    async with world.client() as client:
        await client.rotate_webhook_secret(webhook_id)


@pytest.fixture
def own_receiver(fresh_url: str, tmp_path: Path) -> Iterator[ReceiverProcess]:
    """A real receiver, started by `start` once there are secrets in its file."""
    receiver = ReceiverProcess(fresh_url, tmp_path, secrets=())
    receiver.port = free_port()
    try:
        yield receiver
    finally:
        if receiver.process is not None:
            receiver.stop()


def heard(world: World, channel: Channel) -> set[str]:
    """The jobs that a channel has brought news of."""
    found = rows(world.ledger, select(processed_events))
    return {row.job_id for row in found if getattr(row, f"{channel}_at") is not None}


def answered(world: World) -> dict[str, tuple[int, int | None]]:
    """By job: how many deliveries of it were acknowledged, and how the last one was answered."""
    return {
        job["job_id"]: (job["deliveries"]["acknowledged"], job["deliveries"]["last_http_status"])
        for job in world.jobs()
    }


async def test_deliveries_under_way_are_accepted_and_refused_ones_come_back_through_the_log(
    world: World, own_receiver: ReceiverProcess
) -> None:
    secrets = SecretsFile(own_receiver.secrets_path)
    webhook_id = await register(world, secrets, f"http://127.0.0.1:{own_receiver.port}{PATH}")
    own_receiver.start()
    own_receiver.wait_until_ready()

    await rotate_unseen(world, webhook_id)
    await world.submit(*world.urls(3))
    refused = {job["job_id"] for job in world.jobs()}
    wait_for(lambda: all(status == 401 for _, status in answered(world).values()))
    wait_for(lambda: all(job["deliveries"]["attempts"] == 2 for job in world.jobs()))
    assert heard(world, Channel.WEBHOOK) == set()

    report = await rotate(world, secrets)
    assert (report.rotated, report.replayed) == (1, 3)
    assert heard(world, Channel.DELIVERY_LOG) == refused

    world.service.set_faults(webhook_wrong_signature=[{"form": "previous_secret", "url_contains": "pages/4"}])
    await rotate(world, secrets)
    await world.submit(*world.urls(5))
    new = {job["job_id"] for job in world.jobs()} - refused
    wait_for(lambda: all(answered(world)[job_id] == (1, 200) for job_id in new))
    assert heard(world, Channel.WEBHOOK) == new

    await world.bring_to_an_end()
    assert world.ledger.progress.of(DAY).stored == 5
    assert world.violations() == []
    assert heard(world, Channel.POLL).isdisjoint(refused | new)


async def test_a_refusal_is_replayed_while_the_service_still_tries_again(
    world: World, secrets: SecretsFile, receiver: Receiver
) -> None:
    await register(world, secrets, receiver.url)
    receiver.statuses = [401]
    await world.submit(*world.urls(1))
    receiver.wait(1)
    wait_for(lambda: world.jobs()[0]["deliveries"]["attempts"] >= 1)
    assert (await rotate(world, secrets)).replayed == 1


@on_one_database
async def test_old_secrets_end_after_a_day_and_the_newest_never(
    world: World, secrets: SecretsFile, receiver: Receiver
) -> None:
    await register(world, secrets, receiver.url)
    for _ in range(2):
        await rotate(world, secrets)
        world.clock.advance(3600)
    now = world.clock.now()
    assert [entry.expires_at is None for entry in secrets.read()] == [False, False, True]
    assert len(secrets.valid(now)) == 3
    world.clock.advance(23 * 3600)
    assert secrets.valid(world.clock.now()) == [secrets.read()[-1]]


@on_one_database
async def test_after_a_leak_the_old_secret_ends_at_once(
    world: World, secrets: SecretsFile, receiver: Receiver
) -> None:
    await register(world, secrets, receiver.url)
    await rotate(world, secrets, old_secret_stays=timedelta())
    assert secrets.valid(world.clock.now()) == [secrets.read()[-1]]


@on_one_database
async def test_a_rotation_whose_answer_was_lost_is_made_once_more(
    world: World, secrets: SecretsFile, receiver: Receiver
) -> None:
    await register(world, secrets, receiver.url)
    world.service.set_faults(webhook_answer_lost=[{"on": "rotate_secret", "count": 2}])
    assert (await rotate(world, secrets)).rotated == 1
    assert calls(world.service, ROTATIONS) == 3
    await world.post(world.url("pages/1"))
    assert is_signed_by_the_newest(receiver.wait(1)[0], secrets)


@on_one_database
@pytest.mark.parametrize(
    ("faults", "error"),
    [
        ({"webhook_answer_lost": [{"on": "rotate_secret"}]}, NetworkError),
        ({"webhook_500": [{"on": "rotate_secret"}]}, ServerError),
    ],
)
async def test_a_rotation_that_fails_leaves_the_secrets_as_they_are_and_the_next_one_repairs(
    world: World,
    secrets: SecretsFile,
    receiver: Receiver,
    faults: dict[str, Any],
    error: type[Exception],
) -> None:
    await register(world, secrets, receiver.url)
    before = secrets.read()
    world.service.set_faults(**faults)
    with pytest.raises(error):
        await rotate(world, secrets)
    assert secrets.read() == before
    world.service.clear_faults()
    await rotate(world, secrets)
    await world.post(world.url("pages/1"))
    assert is_signed_by_the_newest(receiver.wait(1)[0], secrets)


def _kill_at_the_file(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SecretsFile, "add", _die)


def _kill_at_the_expiry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SecretsFile, "expire_others", _die)


def _kill_at_the_ledger(patch: pytest.MonkeyPatch) -> None:
    remember = WebhookStore.remember

    def remember_or_die(store: WebhookStore, webhook: Any) -> None:
        if webhook.rotation_begun_at is None:
            raise Killed
        remember(store, webhook)

    patch.setattr(WebhookStore, "remember", remember_or_die)


def _kill_at_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registration, "read_delivery_log", _die)


def _die(*_: object, **__: object) -> None:
    raise Killed


@on_one_database
@pytest.mark.parametrize(
    "kill", [_kill_at_the_file, _kill_at_the_expiry, _kill_at_the_ledger, _kill_at_the_log]
)
@pytest.mark.parametrize("repair", ["rotate", "register"])
async def test_a_rotation_that_was_killed_at_any_step_is_set_right_by_the_next_act(
    world: World,
    secrets: SecretsFile,
    receiver: Receiver,
    kill: Callable[[pytest.MonkeyPatch], None],
    repair: str,
) -> None:
    await register(world, secrets, receiver.url)
    old = secrets.read()
    with pytest.MonkeyPatch.context() as patch:
        kill(patch)
        with pytest.raises(Killed):
            await rotate(world, secrets)
    assert set(_values(SecretsFile(secrets.path))) >= {old[0].secret.get_secret_value()}

    if repair == "rotate":
        await rotate(world, secrets)
    else:
        async with world.client() as client:
            await register_webhooks(world.ledger, client, secrets, receiver.url)
    await world.post(world.url("pages/1"))
    assert is_signed_by_the_newest(receiver.wait(1)[0], secrets)
    assert [entry.expires_at is None for entry in secrets.read()].count(True) == 1
    assert [webhook.rotation_begun_at for webhook in world.ledger.webhooks.registered()] == [None]


def _values(secrets: SecretsFile) -> list[str]:
    return [entry.secret.get_secret_value() for entry in secrets.read()]


@on_one_database
async def test_the_new_secret_is_kept_before_the_old_one_may_end(
    world: World, secrets: SecretsFile, receiver: Receiver
) -> None:
    """Whatever the service signs with after the file was written, the file has a valid secret for it."""
    webhook_id = await register(world, secrets, receiver.url)
    seen: list[str] = []
    await world.post(world.url("pages/1"))
    receiver.wait(1)
    await rotate(world, secrets, on_rotated=seen.append)
    await world.post(world.url("pages/2"))
    assert all(is_signed_by_one_of(received, secrets) for received in receiver.wait(2))
    assert seen == [webhook_id]


async def test_a_webhook_that_is_gone_does_not_keep_the_others_from_being_rotated(
    world: World, secrets: SecretsFile, receiver: Receiver
) -> None:
    gone = await register(world, secrets, "http://127.0.0.1:9/webhooks/geonode")
    await register(world, secrets, receiver.url)
    async with world.client() as client:
        await client.delete_webhook(gone)
    report = await rotate(world, secrets)
    assert (report.rotated, report.gone) == (1, 1)


@on_one_database
async def test_one_webhook_can_be_rotated_by_itself(
    world: World, secrets: SecretsFile, receiver: Receiver
) -> None:
    await register(world, secrets, "http://127.0.0.1:9/webhooks/geonode")
    chosen = await register(world, secrets, receiver.url)
    await rotate(world, secrets, webhook_ids=[chosen])
    rotated = {webhook.webhook_id: webhook.rotated_at for webhook in world.ledger.webhooks.registered()}
    assert [webhook_id for webhook_id, at in rotated.items() if at is not None] == [chosen]
