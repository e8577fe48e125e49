"""Failed runs and failed checks are told once each, to receivers that listen, refuse, hang or are not there."""

import logging
import threading
from collections.abc import Iterator

import dagster as dg
import pytest

from scraper_pipeline.alerts import alert_sensor
from scraper_pipeline.alerts import channels as alert_channels
from scraper_pipeline.alerts import sensor as sensor_module
from scraper_pipeline_tests.integration.sandbox.receiver import Receiver

KEY = "key-5c0ffee5ecre7"
DAYS = dg.DailyPartitionsDefinition("2026-01-01")


class Mood(dg.Config):
    """What the asset is to do."""

    fails: str = ""
    passes: bool = True


@dg.asset(partitions_def=DAYS, check_specs=[dg.AssetCheckSpec("is_well", asset="moody")])
def moody(config: Mood) -> dg.MaterializeResult:  # type: ignore[type-arg]
    if config.fails == "explained":
        raise dg.Failure(f"The key {KEY} was refused.\nCheck <GEONODE_SCRAPER_API_KEY>.")
    if config.fails:
        raise ValueError(f"the page says {config.fails}")
    check = dg.AssetCheckResult(
        passed=config.passes,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"parked": 3, "url": "https://site.test/"},
    )
    return dg.MaterializeResult(check_results=[check])


DEFINITIONS = dg.Definitions([moody], jobs=[dg.define_asset_job("moody_job", [moody])])


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """On files, a log for each run, as Dagster keeps them unless it is told otherwise."""
    with dg.DagsterInstance.local_temp(str(tmp_path_factory.mktemp("dagster"))) as instance:
        yield instance


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_channels, "POST_SECONDS", 60)


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("GEONODE_SCRAPER_API_KEY", KEY)
    with Receiver() as receiver:
        monkeypatch.setenv("SCRAPER_ALERT_URL", f"{receiver.url}?token=hush-hush")
        yield receiver


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with Receiver() as receiver:
        monkeypatch.setenv("SCRAPER_SLACK_WEBHOOK_URL", receiver.url)
        yield receiver


class Duty:
    """The sensor as the daemon runs it: a tick that fails keeps the cursor that it had."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.cursor: str | None = None

    def tick(self) -> dg.SensorResult | dg.SkipReason:
        result = alert_sensor(dg.build_sensor_context(instance=self.instance, cursor=self.cursor))
        assert isinstance(result, dg.SensorResult | dg.SkipReason)
        self.cursor = getattr(result, "cursor", None) or self.cursor
        return result

    def run(self, day: str = "2026-01-05", *, fails: str = "", passes: bool = True) -> str:
        config = {"ops": {"moody": {"config": {"fails": fails, "passes": passes}}}}
        job = DEFINITIONS.resolve_job_def("moody_job")
        return job.execute_in_process(
            run_config=config, partition_key=day, instance=self.instance, raise_on_error=False
        ).run_id


@pytest.fixture
def duty(instance: dg.DagsterInstance) -> Duty:
    return Duty(instance)


def _messages(receiver: Receiver) -> list[str]:
    return [received.json["message"] for received in receiver.received]


def test_runs_and_checks_that_fail_are_told_once_each_in_both_forms(
    duty: Duty,
    webhook: Receiver,
    slack: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SCRAPER_DAGSTER_URL", "https://dagster.example/")
    duty.run(fails="explained")
    duty.tick()
    assert webhook.received == [], "what failed before anybody asked is not told"

    run_id = duty.run(fails="explained")
    checked = duty.run(passes=False)
    duty.run()
    duty.tick()
    duty.tick()
    failure, check = (received.json for received in webhook.received)
    assert {
        name: failure[name] for name in ("what", "run_id", "job", "partition", "message", "checks", "link")
    } == {
        "what": "run_failed",
        "run_id": run_id,
        "job": "moody_job",
        "partition": "2026-01-05",
        "message": "The key *** was refused. Check <GEONODE_SCRAPER_API_KEY>.",
        "checks": [],
        "link": f"https://dagster.example/runs/{run_id}",
    }
    assert failure["when"].endswith("Z")
    assert (check["what"], check["run_id"]) == ("checks_failed", checked)
    assert check["checks"] == [
        {"asset": "moody", "check": "is_well", "severity": "WARN", "description": "parked 3"}
    ]
    assert [received.json for received in slack.received] == [
        {
            "text": f"*<https://dagster.example/runs/{run_id}|moody_job for 2026-01-05 failed>*\n"
            "The key *** was refused. Check &lt;GEONODE_SCRAPER_API_KEY&gt;."
        },
        {
            "text": f"*<https://dagster.example/runs/{checked}|moody_job for 2026-01-05 has failed checks>*\n"
            "moody: is_well (WARN): parked 3"
        },
    ]
    assert "hush-hush" not in caplog.text
    assert KEY not in webhook.received[0].body.decode()


def test_an_error_that_nobody_explained_is_named_and_not_quoted(duty: Duty, webhook: Receiver) -> None:
    duty.tick()
    duty.run(fails="a word of a page")
    duty.tick()
    assert _messages(webhook) == ["ValueError in moody; the run's log has the rest."]


def test_a_check_is_told_when_it_begins_to_fail_and_again_after_it_has_passed(
    duty: Duty, webhook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    duty.tick()
    duty.run(passes=False)
    duty.run(passes=False)
    duty.tick()
    assert len(webhook.received) == 1
    duty.run("2026-01-06", passes=False)
    duty.tick()
    assert [received.json["partition"] for received in webhook.received] == ["2026-01-05", "2026-01-06"]
    duty.run()
    duty.run(passes=False)
    duty.tick()
    assert len(webhook.received) == 3
    monkeypatch.setattr(sensor_module, "REMIND_AFTER", -sensor_module.REMIND_AFTER)
    duty.run(passes=False)
    duty.tick()
    assert len(webhook.received) == 4, "once a day it is told again"


def test_a_check_that_a_sensor_reports_is_told_without_a_run(duty: Duty, webhook: Receiver) -> None:
    duty.tick()
    for passed in (False, False, True):
        duty.instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey("delivery_log"), check_name="webhooks_deliver", passed=passed
            )
        )
        duty.tick()
    [alert] = [received.json for received in webhook.received]
    assert (alert["what"], alert["run_id"], alert["job"]) == ("checks_failed", None, None)
    assert alert["checks"][0]["check"] == "webhooks_deliver"


def test_what_was_not_taken_fails_the_ticks_and_is_sent_until_it_is_too_old(
    duty: Duty,
    webhook: Receiver,
    slack: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    duty.tick()
    webhook.statuses = [500, 404, 302, 200]
    duty.run(fails="explained")
    duty.tick()
    assert len(slack.received) == 1
    for status in (404, 302):
        with pytest.raises(dg.Failure, match=f"the answer was {status}") as raised:
            duty.tick()
        assert "check SCRAPER_ALERT_URL" in str(raised.value.description)
        assert raised.value.__cause__ is None
    duty.tick()
    duty.tick()
    assert len(webhook.received) == 4, "once taken it is not sent again"
    assert len(slack.received) == 1, "nor to those who had it"

    webhook.statuses = [500] * 9
    duty.run(fails="explained")
    duty.tick()
    with pytest.raises(dg.Failure):
        duty.tick()
    monkeypatch.setattr(sensor_module, "MOST_AGE", -sensor_module.MOST_AGE)
    duty.tick()
    assert "hush-hush" not in caplog.text


def test_a_receiver_that_hangs_or_is_not_there_costs_a_tick_seconds(
    duty: Duty, webhook: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_channels, "POST_SECONDS", 0.2)
    gate = threading.Event()
    webhook.on_receipt = lambda _: gate.wait(30)
    duty.tick()
    duty.run(fails="explained")
    with pytest.raises(dg.Failure, match="ReadTimeout"):
        duty.tick()
    gate.set()
    monkeypatch.setenv("SCRAPER_ALERT_URL", "http://127.0.0.1:9/")
    with pytest.raises(dg.Failure, match="ConnectError"):
        duty.tick()


def test_nothing_is_asked_of_anybody_until_a_receiver_is_set(
    duty: Duty, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("it speaks to somebody")

    monkeypatch.setattr("socket.socket.connect", refuse)
    duty.run(fails="explained")
    for _ in range(2):
        assert isinstance(duty.tick(), dg.SkipReason)
    assert duty.cursor is None


def test_a_cursor_that_nobody_can_read_begins_anew(duty: Duty, webhook: Receiver) -> None:
    duty.run(fails="explained")
    for cursor in ("junk", "[]", '{"webhook": {"ends": 3}}', '{"webhook": 3}'):
        duty.cursor = cursor
        duty.tick()
    assert webhook.received == []


def test_an_instance_in_memory_is_read_alike(webhook: Receiver) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        duty = Duty(instance)
        duty.tick()
        duty.run(fails="explained")
        duty.run(passes=False)
        duty.tick()
        duty.tick()
    assert [received.json["what"] for received in webhook.received] == ["run_failed", "checks_failed"]
