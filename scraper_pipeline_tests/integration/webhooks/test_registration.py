"""Registration may be repeated and interrupted at will: one webhook for each event type, and its secret kept."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scraper_pipeline.ledger import Ledger
from scraper_pipeline.lifecycle import RegistrationReport, register_webhooks, rotate_secrets
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.scraper_api import InvalidRequest, NetworkError, ServerError, WebhooksNotOffered
from scraper_pipeline.webhook_secrets import SecretsFile, WebhookSecret, WebhookSecretsError
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World
from scraper_pipeline_tests.integration.sandbox.receiver import Received, Receiver
from scraper_pipeline_tests.integration.webhooks.signing import calls, is_signed_by_the_newest

CREATIONS, ROTATIONS = "POST /v1/webhooks", "/rotate-secret"
on_one_database = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)


class Killed(BaseException):
    """The process ends here."""


class DoomedSecrets(SecretsFile):
    """A secrets file whose process is killed when it is about to keep one."""

    def add(self, entry: WebhookSecret) -> None:
        raise Killed


@pytest.fixture
def register(world: World, secrets: SecretsFile, receiver: Receiver) -> Callable[..., Any]:
    async def register(url: str = receiver.url, keeper: SecretsFile = secrets) -> RegistrationReport:
        async with world.client() as client:
            return await register_webhooks(world.ledger, client, keeper, url)

    return register


async def deliver(world: World, receiver: Receiver) -> Received:
    """The last delivery about one more job."""
    before = len(receiver.received)
    await world.post(world.url(f"pages/{before + 1}"))
    return receiver.wait(before + 1)[-1]


def counted(report: RegistrationReport) -> tuple[int, int, int]:
    return len(report.created), len(report.kept), len(report.repaired)


async def test_a_registration_makes_a_webhook_and_keeps_its_secret_for_the_owner_alone(
    world: World, register: Any, secrets: SecretsFile, receiver: Receiver
) -> None:
    assert counted(await register()) == (1, 0, 0)
    assert stat.S_IMODE(secrets.path.stat().st_mode) == 0o600
    [ours] = world.ledger.webhooks.registered()
    assert (ours.url, ours.event_type, ours.is_active) == (receiver.url, "extract_completed", True)
    assert is_signed_by_the_newest(await deliver(world, receiver), secrets)


async def test_a_second_registration_finds_the_first_and_changes_nothing(
    world: World, register: Any, secrets: SecretsFile
) -> None:
    await register()
    kept = secrets.path.read_bytes(), world.ledger.webhooks.registered()
    assert counted(await register()) == (0, 1, 0)
    assert (secrets.path.read_bytes(), world.ledger.webhooks.registered()) == kept
    assert (calls(world.service, CREATIONS), calls(world.service, ROTATIONS)) == (1, 0)


@on_one_database
async def test_another_address_is_another_webhook(world: World, register: Any, secrets: SecretsFile) -> None:
    await register()
    assert counted(await register(url="http://127.0.0.1:9/webhooks/geonode")) == (1, 0, 0)
    assert len(world.ledger.webhooks.registered()) == len(secrets.read()) == 2


async def test_a_webhook_whose_creation_was_answered_into_the_void_is_found_and_repaired(
    world: World, register: Any, secrets: SecretsFile, receiver: Receiver
) -> None:
    world.service.set_faults(webhook_answer_lost=[{"on": "create_webhook", "count": 1}])
    with pytest.raises(NetworkError):
        await register()
    assert not secrets.path.exists() or secrets.read() == ()
    assert counted(await register()) == (0, 0, 1)
    assert calls(world.service, CREATIONS) == 1
    assert is_signed_by_the_newest(await deliver(world, receiver), secrets)


@on_one_database
async def test_a_registration_that_was_killed_before_the_secret_was_kept_is_repaired(
    world: World, register: Any, secrets: SecretsFile, receiver: Receiver
) -> None:
    with pytest.raises(Killed):
        await register(keeper=DoomedSecrets(secrets.path))
    assert counted(await register()) == (0, 0, 1)
    assert calls(world.service, CREATIONS) == 1
    assert is_signed_by_the_newest(await deliver(world, receiver), secrets)
    assert counted(await register()) == (0, 1, 0)


async def test_a_rotation_that_was_killed_before_the_secret_was_kept_is_repaired_by_a_registration(
    world: World, register: Any, secrets: SecretsFile, receiver: Receiver
) -> None:
    await register()
    async with world.client() as client:
        with pytest.raises(Killed):
            await rotate_secrets(world.ledger, client, DoomedSecrets(secrets.path))
    assert not is_signed_by_the_newest(await deliver(world, receiver), secrets)
    assert counted(await register()) == (0, 0, 1)
    assert is_signed_by_the_newest(await deliver(world, receiver), secrets)
    assert counted(await register()) == (0, 1, 0)


@on_one_database
async def test_a_webhook_that_was_switched_off_is_switched_on_again(
    world: World, register: Any, secrets: SecretsFile, receiver: Receiver
) -> None:
    [webhook] = (await register()).created
    async with world.client() as client:
        await client.update_webhook(webhook.webhook_id, is_active=False)
    assert counted(await register()) == (0, 1, 0)
    assert [ours.is_active for ours in world.ledger.webhooks.registered()] == [True]
    assert is_signed_by_the_newest(await deliver(world, receiver), secrets)


@on_one_database
async def test_a_lost_secrets_file_is_made_again(
    world: World, register: Any, secrets: SecretsFile, receiver: Receiver
) -> None:
    await register()
    secrets.path.unlink()
    assert counted(await register(keeper=SecretsFile(secrets.path))) == (0, 0, 1)
    assert is_signed_by_the_newest(await deliver(world, receiver), secrets)


async def test_a_lost_ledger_learns_of_its_webhooks_again(
    world: World, register: Any, secrets: SecretsFile
) -> None:
    await register()
    [ours] = world.ledger.webhooks.registered()
    world.ledger.webhooks.forget(ours.webhook_id)
    assert counted(await register()) == (0, 1, 0)
    assert world.ledger.webhooks.registered() == [ours]


async def test_a_registration_again_does_not_forget_when_the_secret_was_rotated(
    world: World, register: Any, secrets: SecretsFile
) -> None:
    await register()
    async with world.client() as client:
        await rotate_secrets(world.ledger, client, secrets)
    [rotated] = world.ledger.webhooks.registered()
    assert rotated.rotated_at is not None
    await register()
    assert world.ledger.webhooks.registered() == [rotated]


@on_one_database
@pytest.mark.parametrize(
    ("faults", "error"),
    [
        ({"webhook_500": True}, ServerError),
        ({"webhook_answer_lost": [{"on": "create_webhook"}]}, NetworkError),
        ({"unauthorized": True}, Exception),
    ],
)
async def test_a_registration_that_fails_leaves_the_other_secrets_as_they_are(
    world: World, register: Any, secrets: SecretsFile, faults: dict[str, Any], error: type[Exception]
) -> None:
    await register(url="http://127.0.0.1:9/webhooks/geonode")
    before = secrets.read()
    world.service.set_faults(**faults)
    with pytest.raises(error):
        await register()
    assert secrets.read() == before


@on_one_database
async def test_a_full_account_is_told_so_and_nothing_is_kept(
    world: World, register: Any, secrets: SecretsFile
) -> None:
    async with world.client() as client:
        for number in range(10):
            await client.create_webhook(f"http://127.0.0.1:9/{number}", "extract_completed")
    with pytest.raises(InvalidRequest, match="at most"):
        await register()
    assert world.ledger.webhooks.registered() == []


@on_one_database
@pytest.mark.parametrize("act", ["register", "rotate"])
async def test_a_secrets_file_that_can_not_be_kept_is_found_before_the_service_is_asked_for_a_secret(
    world: World, register: Any, secrets: SecretsFile, act: str
) -> None:
    await register()
    secrets.path.write_text("{")
    broken = SecretsFile(secrets.path)
    async with world.client() as client:
        asked = rotate_secrets(world.ledger, client, broken) if act == "rotate" else register(keeper=broken)
        with pytest.raises(WebhookSecretsError, match="no file of webhook secrets"):
            await asked
    assert calls(world.service, ROTATIONS) == 0
    assert secrets.path.read_text() == "{"


@on_one_database
async def test_a_folder_that_can_not_be_made_is_found_before_a_webhook_is_made(
    world: World, register: Any, tmp_path: Path
) -> None:
    (tmp_path / "no-folder").write_text("a file")
    with pytest.raises(WebhookSecretsError, match="GEONODE_WEBHOOK_SECRETS_FILE"):
        await register(keeper=SecretsFile(tmp_path / "no-folder" / "secrets.json"))
    assert calls(world.service, CREATIONS) == 0


async def test_where_webhooks_are_not_offered_everything_goes_on_by_polling(
    sqlite_url: str, secrets: SecretsFile, world_clock: Any
) -> None:
    config = SandboxConfig(min_delay=0.0, max_delay=0.02, webhooks_offered=False)
    with (
        SandboxServer(config, clock=world_clock.for_service) as service,
        Ledger.open(sqlite_url, clock=world_clock.now) as ledger,
    ):
        world = World(ledger, service, world_clock)
        async with world.client() as client:
            with pytest.raises(WebhooksNotOffered, match=r"does not offer webhoo.*polling goes on"):
                await register_webhooks(ledger, client, secrets, "http://127.0.0.1:9/webhooks/geonode")
        assert not secrets.path.exists()
        await world.bring_to_an_end(*world.urls(3))
        assert ledger.progress.of(DAY).stored == 3
        assert world.violations() == []
