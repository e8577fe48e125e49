"""Webhooks through real processes, with everything that can go wrong with them: every page is stored once.

The receiver and the sandbox of the service are processes of their own; runs and ticks are Dagster's, in this one.
Tests share them, and each has a day of its own.
"""

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import httpx
import pytest

from scraper_pipeline.accounts import open_client
from scraper_pipeline.definitions import defs
from scraper_pipeline.ledger import Channel, ChannelFigures, Ledger
from scraper_pipeline.lifecycle import register_webhooks, rotate_secrets
from scraper_pipeline.local.demo import fetch_truth
from scraper_pipeline.local.processes import free_port
from scraper_pipeline.local.stack import sandbox
from scraper_pipeline.sensors import delivery_log_sensor, job_status_sensor
from scraper_pipeline.settings import load_settings
from scraper_pipeline.webhook_secrets import SecretsFile
from scraper_pipeline_tests.integration.receiver.receiving import PATH, ReceiverProcess
from scraper_pipeline_tests.postgres import EphemeralPostgres

PAGES = 12
PATIENCE_SECONDS = 150.0
FAULTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "duplicate": {"webhook_duplicate": [{"copies": 2, "identical": True, "probability": 0.5}, {"copies": 3}]},
    "early": {"webhook_early": [{"again": True, "probability": 0.5}, {"again": False}]},
    "out of order": {"webhook_out_of_order": [{"seconds": 1.0, "probability": 0.7}]},
    "delay": {"webhook_delay": [{"seconds": 1.5}]},
    "slow": {"webhook_slow": [{"seconds": 1.0, "chunked": True, "probability": 0.5}, {"seconds": 1.0}]},
    "wrong signature once": {"webhook_wrong_signature": [{"form": "other_secret", "probability": 0.5}]},
}

pytestmark = pytest.mark.timeout(240)


@dataclass
class Running:
    """What is running, and how to drive and observe it."""

    ledger: Ledger
    receiver: ReceiverProcess
    secrets: SecretsFile
    sandbox_url: str
    environ: Mapping[str, str]
    target_list: Path
    instance: dg.DagsterInstance
    days: Iterator[str] = field(
        default_factory=lambda: (str(date(2026, 1, 5) + timedelta(days=n)) for n in itertools.count())
    )

    def set_faults(self, **faults: Any) -> None:
        answer = httpx.post(f"{self.sandbox_url}/sandbox/faults", json=faults, trust_env=False, timeout=60)
        assert answer.status_code == 200, answer.text

    def submit(self) -> str:
        """Submit pages of the next day, one of which always fails."""
        day = next(self.days)
        paths = [*(f"pages/{number}" for number in range(1, PAGES + 1)), "broken/1"]
        self.target_list.write_text("".join(f"{self.sandbox_url}/site/{path}\n" for path in paths))
        self._run("submit_jobs", day)
        assert self.ledger.progress.of(day).targets == PAGES + 1
        return day

    def settle(self, day: str) -> Mapping[Channel, ChannelFigures]:
        """Tick both sensors, and run what they ask for, until the day is settled; returns who brought the news."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.ledger.progress.of(day).is_settled:
            assert time.monotonic() < end, f"{self.ledger.progress.of(day)} {self.ledger.channels.of(day)}"
            self._tick(delivery_log_sensor)
            for request in self._tick(job_status_sensor).run_requests or []:
                assert request.job_name is not None
                self._run(request.job_name, str(request.partition_key))
            time.sleep(0.1)
        return self.ledger.channels.of(day)

    def _run(self, job: str, day: str) -> None:
        assert defs.resolve_job_def(job).execute_in_process(partition_key=day, instance=self.instance).success

    def _tick(self, sensor: dg.SensorDefinition) -> dg.SensorResult:
        resources = {name: (defs.resources or {})[name] for name in ("ledger", "scraper")}
        result = sensor(dg.build_sensor_context(instance=self.instance, resources=resources))
        assert isinstance(result, dg.SensorResult)
        return result

    @contextmanager
    def without_polling(self) -> Iterator[None]:
        """Nobody's turn to poll comes."""
        self.ledger.leases.take("poll", "*", "the test", 600, force=True)
        try:
            yield
        finally:
            self.ledger.leases.drop("poll", "*", "the test")

    @contextmanager
    def without_receiver(self) -> Iterator[None]:
        self.receiver.stop()
        try:
            yield
        finally:
            self.receiver.start()
            self.receiver.wait_until_ready()

    async def rotate(self) -> None:
        async with open_client(load_settings(self.environ)) as client:
            await rotate_secrets(self.ledger, client, self.secrets)

    def check(self, day: str) -> None:
        """Every page of the day is stored once, what failed is parked, and both books agree on every day so far."""
        progress = self.ledger.progress.of(day)
        assert (progress.stored, progress.dead, progress.targets) == (PAGES, 1, PAGES + 1)
        assert self.ledger.progress.figures(day).tokens_charged == PAGES
        truth = fetch_truth(self.sandbox_url)
        assert [*self.ledger.audit.check(), *self.ledger.audit.check_against(truth)] == []


@contextmanager
def running(ledger_url: str, folder: Path) -> Iterator[Running]:
    receiver = ReceiverProcess(ledger_url, folder, secrets=())
    receiver.port = free_port()
    target_list = folder / "targets.txt"
    options = ("--min-delay=0", "--max-delay=0.6", "--fetch-timeout=60", "--webhook-retries=0.2,0.2")
    with (
        sandbox(folder, options) as url,
        dg.DagsterInstance.ephemeral() as instance,
        Ledger.open(ledger_url) as ledger,
    ):
        environ = {
            "GEONODE_SCRAPER_API_KEY": "any",
            "GEONODE_SCRAPER_HOST": url,
            "GEONODE_WEBHOOK_SECRETS_FILE": str(receiver.secrets_path),
            "SCRAPER_LEDGER_URL": ledger_url,
            "SCRAPER_TARGETS": str(target_list),
            "SCRAPER_DRAIN_QUIET_SECONDS": "0.5",
        }
        secrets = SecretsFile(receiver.secrets_path)
        pipeline = Running(ledger, receiver, secrets, url, environ, target_list, instance)
        asyncio.run(_register(pipeline))
        with receiver:
            receiver.wait_until_ready()
            yield pipeline
            for entry in secrets.read():
                assert entry.secret.get_secret_value() not in receiver.log()


async def _register(pipeline: Running) -> None:
    async with open_client(load_settings(pipeline.environ)) as client:
        url = f"http://127.0.0.1:{pipeline.receiver.port}{PATH}"
        await register_webhooks(pipeline.ledger, client, pipeline.secrets, url)


@pytest.fixture(scope="module")
def shared_on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("webhooks")
    with running(f"sqlite:///{folder / 'ledger.db'}", folder) as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
def shared_on_postgres(
    postgres_server: EphemeralPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("webhooks")
    with postgres_server.database() as name, running(postgres_server.url(name), folder) as pipeline:
        yield pipeline


@pytest.fixture
def pipeline(shared_on_sqlite: Running) -> Iterator[Running]:
    with _at_the_settings_of(shared_on_sqlite):
        yield shared_on_sqlite


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def pipeline_on_either(request: pytest.FixtureRequest) -> Iterator[Running]:
    shared: Running = request.getfixturevalue(f"shared_on_{request.param}")
    with _at_the_settings_of(shared):
        yield shared


@contextmanager
def _at_the_settings_of(pipeline: Running) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in pipeline.environ.items():
            patch.setenv(name, value)
        yield
    httpx.delete(f"{pipeline.sandbox_url}/sandbox/faults", trust_env=False, timeout=60).raise_for_status()


def _share(channels: Mapping[Channel, ChannelFigures], *wanted: Channel) -> int:
    return sum(channels[channel].first for channel in wanted)


@pytest.mark.parametrize("fault", FAULTS)
def test_what_webhooks_bring_in_whatever_way_is_stored_once_without_any_polling(
    pipeline: Running, fault: str
) -> None:
    pipeline.set_faults(**FAULTS[fault])
    with pipeline.without_polling():
        day = pipeline.submit()
        channels = pipeline.settle(day)
    assert _share(channels, Channel.WEBHOOK, Channel.DELIVERY_LOG) == PAGES + 1
    assert channels[Channel.WEBHOOK].first > 0
    pipeline.check(day)


def test_what_no_webhook_ever_tells_of_is_found_by_polling(pipeline: Running) -> None:
    pipeline.set_faults(webhook_drop=True)
    day = pipeline.submit()
    assert _share(pipeline.settle(day), Channel.POLL) == PAGES + 1
    pipeline.check(day)


def test_what_is_never_rightly_signed_comes_by_the_log_alone(pipeline: Running) -> None:
    others = [{"form": form, "probability": 0.3} for form in ("garbage", "not_ascii", "absent", "empty")]
    pipeline.set_faults(webhook_wrong_signature=[*others, {"form": "other_secret"}])
    with pipeline.without_polling():
        day = pipeline.submit()
        assert _share(pipeline.settle(day), Channel.DELIVERY_LOG) == PAGES + 1
    pipeline.check(day)


def test_all_faults_together_still_store_everything_once(pipeline_on_either: Running) -> None:
    pipeline = pipeline_on_either
    pipeline.set_faults(
        webhook_drop=0.2,
        webhook_duplicate=[{"copies": 2, "identical": True, "probability": 0.3}, {"probability": 0.3}],
        webhook_early=[{"again": True, "probability": 0.2}, {"probability": 0.2}],
        webhook_out_of_order=[{"seconds": 1.0, "probability": 0.3}],
        webhook_wrong_signature=[{"form": "other_secret", "probability": 0.3}],
        webhook_delay=[{"seconds": 1.0, "probability": 0.3}],
        webhook_slow=[{"seconds": 0.5, "probability": 0.3}],
        get_500=[{"probability": 0.1}],
        listing_lag=0.5,
    )
    day = pipeline.submit()
    channels = pipeline.settle(day)
    assert sum(figures.first for figures in channels.values()) == PAGES + 1
    pipeline.check(day)


def test_without_a_receiver_everything_is_stored_once_by_polling_and_by_the_log(pipeline: Running) -> None:
    with pipeline.without_receiver():
        day = pipeline.submit()
        channels = pipeline.settle(day)
    assert _share(channels, Channel.POLL, Channel.DELIVERY_LOG) == PAGES + 1
    pipeline.check(day)


def test_without_a_receiver_and_without_polling_the_log_alone_brings_everything(
    pipeline_on_either: Running,
) -> None:
    pipeline = pipeline_on_either
    with pipeline.without_receiver(), pipeline.without_polling():
        day = pipeline.submit()
        assert _share(pipeline.settle(day), Channel.DELIVERY_LOG) == PAGES + 1
    pipeline.check(day)


def test_a_receiver_that_is_killed_amid_deliveries_loses_none(pipeline: Running) -> None:
    pipeline.set_faults(webhook_slow=[{"seconds": 0.4}])
    with pipeline.without_polling():
        killer = threading.Timer(0.5, pipeline.receiver.kill)
        killer.start()
        day = pipeline.submit()
        killer.join()
        pipeline.receiver.start()
        pipeline.receiver.wait_until_ready()
        channels = pipeline.settle(day)
    assert _share(channels, Channel.WEBHOOK, Channel.DELIVERY_LOG) == PAGES + 1
    pipeline.check(day)


def test_a_secret_that_is_rotated_amid_deliveries_loses_none(pipeline_on_either: Running) -> None:
    """Some are signed with the old secret, some with a new one that the receiver does not know yet."""
    pipeline = pipeline_on_either
    pipeline.set_faults(
        webhook_wrong_signature=[{"form": "previous_secret", "probability": 0.3}],
        webhook_out_of_order=[{"seconds": 0.5, "probability": 0.5}],
    )
    rotations: Sequence[threading.Timer] = [
        threading.Timer(seconds, lambda: asyncio.run(pipeline.rotate())) for seconds in (0.3, 0.8, 1.3)
    ]
    with pipeline.without_polling():
        for rotation in rotations:
            rotation.start()
        day = pipeline.submit()
        for rotation in rotations:
            rotation.join()
        channels = pipeline.settle(day)
    assert _share(channels, Channel.WEBHOOK, Channel.DELIVERY_LOG) == PAGES + 1
    pipeline.check(day)
