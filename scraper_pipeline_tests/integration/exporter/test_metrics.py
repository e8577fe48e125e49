"""The ledger's figures over HTTP, as Prometheus reads them."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from scraper_pipeline.exporter import LedgerCollector, Limits, serving
from scraper_pipeline.ledger import Channel, Failure, Ledger
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    NEXT_DAY,
    HandClock,
    accept,
    bring_news,
    finish,
    page,
    plan,
)

Samples = dict[tuple[str, ...], float]
SITE = "https://site.test"


@pytest.fixture
def ledger(fresh_url: str) -> Iterator[Ledger]:
    with Ledger.open(fresh_url, clock=HandClock()) as ledger:
        yield ledger


def scrape(ledger: Ledger, limits: dict[str, Limits] | None = None) -> Samples:
    with serving(LedgerCollector(ledger, lambda: limits or {}), "127.0.0.1", 0) as port:
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=60).text
    return read(text)


def read(text: str) -> Samples:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_the_ledger_knows_is_told(ledger: Ledger) -> None:
    stored, parked, waiting = accept(ledger, f"{SITE}/1", f"{SITE}/2", f"{SITE}/3")
    finish(ledger, {stored: page(), parked: Failure("HTTP_404", "It is gone.", retryable=False)})
    bring_news(ledger, waiting, channel=Channel.WEBHOOK)
    plan(ledger, f"{SITE}/4", day=NEXT_DAY)
    ledger.sweeps.end(ledger.sweeps.begin(), {})

    seen = scrape(ledger, {"default": Limits(daily=100)})

    assert seen["scraper_ledger_up",] == 1
    assert {
        state: seen["scraper_targets", "default", DAY, state] for state in ("stored", "dead", "accepted")
    } == {
        "stored": 1,
        "dead": 1,
        "accepted": 1,
    }
    assert seen["scraper_targets", "default", NEXT_DAY, "planned"] == 1
    assert seen["scraper_events_pending", "default", "ours"] == 1
    assert seen["scraper_dead_letters", "default", "HTTP_404"] == 1
    assert seen["scraper_pages_committed", "default", "day"] == 2, "the stored one, and the one that waits"
    assert seen["scraper_page_limit", "default", "day"] == 100
    assert ("scraper_page_limit", "default", "month") not in seen
    assert seen["scraper_last_sweep_timestamp_seconds", "default"] == ledger.clock().timestamp()
    assert seen["scraper_webhooks_active", "default"] == 0
    assert not any(SITE in part for key in seen for part in key)


def test_an_empty_ledger_has_zeros(ledger: Ledger) -> None:
    seen = scrape(ledger)
    assert seen["scraper_oldest_open_seconds", "default"] == 0
    assert seen["scraper_oldest_unsettled_seconds", "default"] == 0
    assert "scraper_last_sweep_timestamp_seconds" not in {key[0] for key in seen}


def test_an_account_is_shown_as_soon_as_it_has_a_row_and_with_the_limits_of_the_moment(
    ledger: Ledger,
) -> None:
    limits: dict[str, Limits] = {}
    with serving(LedgerCollector(ledger, lambda: limits), "127.0.0.1", 0) as port:

        def seen() -> Samples:
            return read(httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=60).text)

        assert ("scraper_quarantined", "research") not in seen()
        accept(ledger.of_account("research"), f"{SITE}/1")
        limits["research"] = Limits(daily=5)
        assert seen()["scraper_targets", "research", DAY, "accepted"] == 1
        assert seen()["scraper_page_limit", "research", "day"] == 5
        assert seen()["scraper_targets", "default", DAY, "accepted"] == 0


def test_a_ledger_that_can_not_be_read_is_down_and_no_error(fresh_sqlite_url: str) -> None:
    with Ledger.open(fresh_sqlite_url, clock=lambda: datetime(2026, 3, 1, tzinfo=UTC)) as ledger:
        with ledger.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE dead_letters")
        assert scrape(ledger) == {("scraper_ledger_up",): 0}


def test_the_command_serves_until_it_is_told_to_stop(fresh_sqlite_url: str, tmp_path: Path) -> None:
    environ = {**os.environ, "SCRAPER_LEDGER_URL": fresh_sqlite_url}
    command = [sys.executable, "-m", "scraper_pipeline.cli", "metrics"]
    with subprocess.Popen(
        [*command, "--port", "0"], env=environ, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as served:
        assert served.stderr is not None
        match = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", served.stderr.readline())
        assert match
        port = match[1]
        assert read(httpx.get(match[0], trust_env=False, timeout=60).text)["scraper_ledger_up",] == 1
        taken = subprocess.run([*command, "--port", port], env=environ, capture_output=True, text=True)
        assert (taken.returncode, "can't be listened on" in taken.stderr) == (1, True)
        served.send_signal(signal.SIGTERM)
        assert served.wait(20) == 0
