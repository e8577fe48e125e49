"""What Dagster has of webhooks: the sensor that reads the log, its asset and check, the rotation and the replay."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from scraper_pipeline import sensors
from scraper_pipeline.ledger import Channel, Delivery, RegisteredWebhook
from scraper_pipeline.lifecycle import register_webhooks
from scraper_pipeline.scraper_api import ScraperClient
from scraper_pipeline.sensors import delivery_log_sensor
from scraper_pipeline.webhook_secrets import SecretsFile
from scraper_pipeline_tests.integration.dagster.driving import DAY, Pipeline, plain, wait_for
from scraper_pipeline_tests.integration.dagster.secrecy import everything_said
from scraper_pipeline_tests.integration.sandbox.receiver import Receiver

RESOURCES = ("ledger", "scraper", "webhook_secrets")
on_one_database = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SecretsFile:
    file = SecretsFile(tmp_path / "webhook-secrets.json")
    monkeypatch.setenv("GEONODE_WEBHOOK_SECRETS_FILE", str(file.path))
    return file


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def registered(pipeline: Pipeline, secrets: SecretsFile, receiver: Receiver) -> Pipeline:
    """With a webhook whose receiver answers as it was told, and hands nothing on."""

    async def register() -> None:
        async with ScraperClient(host=pipeline.sandbox.url, api_key="any") as client:
            await register_webhooks(pipeline.ledger, client, secrets, receiver.url)

    asyncio.run(register())
    return pipeline


def tick(pipeline: Pipeline) -> dg.SensorResult | dg.SkipReason:
    resources = {name: (pipeline.definitions.resources or {})[name] for name in ("ledger", "scraper")}
    context = dg.build_sensor_context(instance=pipeline.instance, resources=resources)
    result = delivery_log_sensor(context)
    assert isinstance(result, dg.SensorResult | dg.SkipReason)
    return result


def reported(pipeline: Pipeline) -> tuple[dict[str, Any], dg.AssetCheckEvaluation]:
    """The metadata and the check that a tick reports of the asset."""
    result = tick(pipeline)
    assert isinstance(result, dg.SensorResult)
    [materialization, check] = result.asset_events
    assert isinstance(materialization, dg.AssetMaterialization)
    assert isinstance(check, dg.AssetCheckEvaluation)
    assert materialization.asset_key == check.asset_key == dg.AssetKey("delivery_log")
    return plain(materialization.metadata), check


def submit(pipeline: Pipeline, pages: int) -> None:
    """Submit these pages and wait until what the service has to tell of them has been attempted."""
    pipeline.ask_for(*(f"pages/{number}" for number in range(1, pages + 1)))
    assert pipeline.submit().success
    wait_for(lambda: all(job["deliveries"]["attempts"] for job in pipeline.jobs()))


def outputs_of(result: dg.ExecuteInProcessResult, op: str) -> dict[str, Any]:
    """The metadata of an op's output."""
    [event] = [event for event in result.events_for_node(op) if event.is_successful_output]
    return plain(event.step_output_data.metadata)


@on_one_database
def test_without_webhooks_the_sensor_says_that_news_comes_by_polling(pipeline: Pipeline) -> None:
    skipped = tick(pipeline)
    assert isinstance(skipped, dg.SkipReason)
    assert "polling" in (skipped.skip_message or "")
    assert pipeline.requests() == 0


def test_what_was_refused_is_news_and_is_shown_in_numbers(registered: Pipeline, receiver: Receiver) -> None:
    receiver.statuses = [401, 200]
    submit(registered, 2)
    metadata, check = reported(registered)
    assert (metadata["attempts"] >= 2, metadata["acknowledged"] >= 1) == (True, True)
    assert metadata["refused_by_status"]["401"] == metadata["refused"] == 1
    assert (metadata["new_attempts"] >= 2, metadata["webhooks"], metadata["gone"]) == (True, 1, 0)
    assert metadata["replayed"] >= 1
    assert check.passed
    registered.run("settle_jobs")
    assert registered.progress().stored == 2
    assert registered.ledger.channels.of(DAY)[Channel.DELIVERY_LOG].first == 2
    assert registered.audit() == []


@on_one_database
def test_the_figures_are_numbers_and_have_the_same_names_at_every_tick(
    registered: Pipeline, receiver: Receiver
) -> None:
    before, _ = reported(registered)
    submit(registered, 1)
    after, _ = reported(registered)
    assert before.keys() == after.keys()
    texts = {"refused_by_status", "last_delivery"}
    for metadata in (before, after):
        assert {name for name, value in metadata.items() if not isinstance(value, int | float)} == texts
    assert (before["seconds_since_last_delivery"], before["last_delivery"]) == (-1.0, "none in the last hour")
    assert 0 <= after["seconds_since_last_delivery"] < 60
    assert 0 <= after["latency_p50_seconds"] <= after["latency_p95_seconds"] < 60


@on_one_database
@pytest.mark.usefixtures("impatient_client")
def test_a_service_that_can_not_be_reached_fails_the_tick(
    registered: Pipeline, environment: pytest.MonkeyPatch, refusing_host: str
) -> None:
    environment.setenv("GEONODE_SCRAPER_HOST", refusing_host)
    with pytest.raises(dg.Failure, match="Nothing is lost"):
        tick(registered)


@on_one_database
def test_a_service_that_does_not_answer_fails_the_tick_within_its_time(
    registered: Pipeline, environment: pytest.MonkeyPatch, silent_host: str
) -> None:
    environment.setenv("GEONODE_SCRAPER_HOST", silent_host)
    environment.setattr(sensors, "LOOK_SECONDS", 0.3)
    with pytest.raises(dg.Failure, match=r"The delivery log was not read within 0\.3 s"):
        tick(registered)


@on_one_database
def test_a_wrong_key_fails_the_tick_and_names_the_variable(registered: Pipeline) -> None:
    registered.sandbox.set_faults(unauthorized=True)
    with pytest.raises(dg.Failure, match="GEONODE_SCRAPER_API_KEY"):
        tick(registered)


@on_one_database
def test_a_webhook_that_is_gone_is_counted(registered: Pipeline) -> None:
    registered.ledger.webhooks.remember(
        RegisteredWebhook("never-was", "http://127.0.0.1:9/", "extract_completed", False, datetime.now(UTC))
    )
    metadata, _ = reported(registered)
    assert (metadata["webhooks"], metadata["gone"]) == (2, 1)


@on_one_database
@pytest.mark.parametrize("pages", [9, 10])
def test_webhooks_that_are_silent_while_jobs_finish_are_warned_of(registered: Pipeline, pages: int) -> None:
    registered.sandbox.set_faults(webhook_drop=True)
    registered.ask_for(*(f"pages/{number}" for number in range(pages)))
    registered.complete()
    _, check = reported(registered)
    assert check.passed == (pages < 10)
    assert check.severity == dg.AssetCheckSeverity.WARN
    assert plain(check.metadata)["jobs_settled"] == pages


@on_one_database
def test_acknowledgements_that_never_reach_the_ledger_are_silence(
    registered: Pipeline, receiver: Receiver
) -> None:
    """As when something before the receiver answers 200 in its place."""
    submit(registered, 10)
    registered.complete()
    _, check = reported(registered)
    assert plain(check.metadata)["acknowledged"] == 10
    assert not check.passed
    registered.ledger.inbox.commit([Delivery(registered.jobs()[0]["job_id"])])
    assert reported(registered)[1].passed


@on_one_database
def test_webhooks_that_are_switched_off_are_not_missed(registered: Pipeline) -> None:
    [ours] = registered.ledger.webhooks.registered()
    registered.ledger.webhooks.remember(RegisteredWebhook(**{**ours.__dict__, "is_active": False}))
    registered.sandbox.set_faults(webhook_drop=True)
    registered.ask_for(*(f"pages/{number}" for number in range(10)))
    registered.complete()
    assert reported(registered)[1].passed


@on_one_database
def test_the_check_can_be_run_by_itself(registered: Pipeline) -> None:
    result = dg.materialize(
        [
            check
            for check in registered.definitions.asset_checks or ()
            if isinstance(check, dg.AssetChecksDefinition)
            and any(key.name == "webhooks_deliver" for key in check.check_keys)
        ],
        instance=registered.instance,
        resources={name: (registered.definitions.resources or {})[name] for name in RESOURCES},
        selection=dg.AssetSelection.checks_for_assets("delivery_log"),
    )
    assert [one.passed for one in result.get_asset_check_evaluations()] == [True]


@on_one_database
def test_the_rotation_job_renews_the_secret_and_says_nothing_of_it(
    registered: Pipeline, secrets: SecretsFile, receiver: Receiver
) -> None:
    before = secrets.read()
    result = registered.run("rotate_webhook_secrets", day=None)
    assert result.success
    assert outputs_of(result, "rotate_all") == {"rotated": 1, "replayed": 0, "gone": 0}
    after = secrets.read()
    assert len(after) == len(before) + 1
    said = everything_said(registered.instance)
    assert not any(entry.secret.get_secret_value().removeprefix("whsec_") in said for entry in after)


@on_one_database
def test_a_rotation_job_whose_file_can_not_be_kept_fails_with_what_to_do(
    registered: Pipeline, secrets: SecretsFile
) -> None:
    secrets.path.write_text("half a fi")
    result = registered.run("rotate_webhook_secrets", day=None)
    assert not result.success
    assert "is no file of webhook secrets" in everything_said(registered.instance)


@on_one_database
def test_the_replay_job_takes_jobs_up_again_and_may_be_repeated(
    registered: Pipeline, receiver: Receiver
) -> None:
    submit(registered, 2)
    job_ids = [job["job_id"] for job in registered.jobs()]
    config = {"ops": {"replay": {"config": {"job_ids": [*job_ids, "a stranger"]}}}}
    first = registered.run("replay_webhook_deliveries", day=None, run_config=config)
    assert outputs_of(first, "replay") == {"taken_up": 2, "already_done": 0, "not_ours": 1}
    registered.run("settle_jobs")
    assert registered.progress().stored == 2
    second = registered.run("replay_webhook_deliveries", day=None, run_config=config)
    assert outputs_of(second, "replay") == {"taken_up": 0, "already_done": 2, "not_ours": 1}
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    recent = {"ops": {"replay": {"config": {"since": since}}}}
    third = registered.run("replay_webhook_deliveries", day=None, run_config=recent)
    assert outputs_of(third, "replay") == {"taken_up": 0, "already_done": 2, "not_ours": 0}
    assert registered.audit() == []


@on_one_database
def test_a_replay_job_that_can_not_read_its_time_says_what_it_takes(pipeline: Pipeline) -> None:
    config = {"ops": {"replay": {"config": {"since": "last week"}}}}
    result = pipeline.run("replay_webhook_deliveries", day=None, run_config=config)
    assert not result.success
    assert "2026-01-31T06:00:00Z" in everything_said(pipeline.instance)


def test_the_rotation_schedule_is_off_until_it_is_switched_on() -> None:
    from scraper_pipeline.schedules import secret_rotation_schedule

    assert secret_rotation_schedule.default_status == dg.DefaultScheduleStatus.STOPPED
    assert secret_rotation_schedule.job_name == "rotate_webhook_secrets"
