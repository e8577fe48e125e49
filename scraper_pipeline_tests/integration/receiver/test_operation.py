"""What an operator sees of a receiver, and when it refuses to start."""

import subprocess
import sys
from pathlib import Path

import pytest

from scraper_pipeline_tests.integration.receiver.receiving import (
    SECRET,
    ReceiverProcess,
    envelope,
    new_job_id,
    write_secrets,
)


def run_to_its_end(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "scraper_pipeline.receiver",
        "--ledger-url",
        f"sqlite:///{tmp_path / 'l.db'}",
    ]
    return subprocess.run(
        [*command, "--port", "0", *options], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("secret", ["", "  ", "whsec_"])
def test_r4_an_empty_secret_stops_the_start(tmp_path: Path, secret: str) -> None:
    ended = run_to_its_end(tmp_path, "--secret", secret)
    assert ended.returncode == 1
    assert "GEONODE_WEBHOOK_SECRET" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_r4_no_secret_stops_the_start(tmp_path: Path) -> None:
    for options in ((), ("--secrets-file", str(tmp_path / "none.json"))):
        ended = run_to_its_end(tmp_path, *options)
        assert ended.returncode == 1
        assert "webhooks register" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_r4_expired_secrets_stop_the_start(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    write_secrets(path, SECRET, expires_at="2026-01-02T00:00:00Z")
    ended = run_to_its_end(tmp_path, "--secrets-file", str(path))
    assert ended.returncode == 1
    assert SECRET not in ended.stderr


def test_a_port_that_is_taken_is_named(receiver: ReceiverProcess, tmp_path: Path) -> None:
    ended = run_to_its_end(tmp_path, "--secret", SECRET, "--port", str(receiver.port))
    assert ended.returncode == 1
    assert f"127.0.0.1:{receiver.port}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_it_is_healthy_and_ready(receiver: ReceiverProcess) -> None:
    assert (receiver.get("/healthz").status, receiver.get("/readyz").status) == (200, 200)


def test_it_is_not_ready_once_no_secret_is_left_and_says_so(own_receiver: ReceiverProcess) -> None:
    write_secrets(own_receiver.secrets_path)
    own_receiver.post(envelope(new_job_id()), "0" * 64)
    answer = own_receiver.get("/readyz")
    assert answer.status == 503
    assert b"no webhook secret is valid" in answer.body
    assert own_receiver.deliver(new_job_id()).status == 401


def test_a_broken_secrets_file_shows_in_readiness_and_stops_nothing(own_receiver: ReceiverProcess) -> None:
    own_receiver.secrets_path.write_text("{")
    own_receiver.post(envelope(new_job_id()), "0" * 64)
    answer = own_receiver.get("/readyz")
    assert answer.status == 503
    assert str(own_receiver.secrets_path) in answer.body.decode()
    assert own_receiver.deliver(new_job_id()).outcome == "accepted"


def test_every_answer_is_counted_by_its_outcome(own_receiver: ReceiverProcess) -> None:
    body = envelope(new_job_id())
    own_receiver.post(body)
    own_receiver.post(body)
    own_receiver.post(b"no json")
    own_receiver.post(body, "0" * 64)
    own_receiver.post(body, headers={"Content-Encoding": "gzip"})
    for outcome in ("accepted", "duplicate", "quarantined", "refused", "encoded"):
        assert own_receiver.metric("scraper_receiver_deliveries_total", outcome=outcome) == 1
    assert own_receiver.metric("scraper_receiver_deliveries_total", outcome="unavailable") == 0
    assert own_receiver.metric("scraper_receiver_latency_seconds_count") == 5
    assert own_receiver.metric("scraper_receiver_batch_size_count") >= 3
    assert own_receiver.metric("scraper_receiver_waiting") == 0
    assert own_receiver.metric("scraper_receiver_events_total", event_type="extract_completed") == 2
