"""The sandbox as a process of its own, for tests that end processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from scraper_pipeline_tests.integration.sandbox.receiver import Receiver

COMMAND = [sys.executable, "-m", "scraper_pipeline.sandbox"]


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, "no ready file"
        time.sleep(0.02)
    return path.read_text(encoding="utf-8").strip()


def test_the_command_announces_itself_serves_and_ends_on_request(tmp_path: Path):
    ready = tmp_path / "ready"
    options = ["--port", "0", "--ready-file", str(ready), "--max-delay", "0", "--min-delay", "0"]
    faults = ["--faults", '{"answer_lost": {"count": 1, "url_contains": "lost"}}']
    with subprocess.Popen([*COMMAND, *options, *faults], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = wait_for(ready)
        assert process.stdout.readline().startswith(f"Sandbox listening on {url} ")
        assert httpx.get(f"{url}/health", timeout=60).json()["status"] == "ok"
        assert httpx.get(f"{url}/sandbox/faults", timeout=60).json()["faults"]["answer_lost"][0]["count"] == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    assert list(tmp_path.iterdir()) == [ready]


def test_the_command_sets_how_webhooks_are_delivered(tmp_path: Path):
    ready = tmp_path / "ready"
    options = ["--port", "0", "--ready-file", str(ready), "--max-delay", "0", "--min-delay", "0"]
    options += ["--webhook-retries", "", "--webhook-timeout", "2", "--webhook-workers", "3"]
    options += ["--webhook-signature", "sha256", "--webhook-signature-header", "X-Signed"]
    options += ["--webhook-payload", "guide"]
    with Receiver() as receiver, subprocess.Popen([*COMMAND, *options], stdout=subprocess.DEVNULL) as process:
        receiver.statuses = [500]
        with httpx.Client(base_url=wait_for(ready), headers={"X-Api-Key": "k"}, timeout=60) as http:
            registration = {"url": receiver.url, "event_type": "extract_completed"}
            assert http.post("/v1/webhooks", json=registration).status_code == 201
            body = {"url": f"{http.base_url}site/empty", "processing_mode": "async"}
            job_id = http.post("/v1/extract", json=body).json()["job_id"]
            (received,) = receiver.wait(1)
            assert received.headers["X-Signed"].startswith("sha256=")
            assert received.json["job_id"] == job_id
            receiver.stays_at(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def test_webhooks_can_be_left_out_by_the_command(tmp_path: Path):
    ready = tmp_path / "ready"
    options = ["--port", "0", "--ready-file", str(ready), "--no-webhooks"]
    with subprocess.Popen([*COMMAND, *options], stdout=subprocess.DEVNULL) as process:
        url = wait_for(ready)
        assert httpx.get(f"{url}/v1/webhooks", headers={"X-Api-Key": "k"}, timeout=60).status_code == 404
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0


def test_a_killed_sandbox_forgets_everything_and_its_port_is_free_at_once(tmp_path: Path):
    port = "0"
    for attempt in range(2):
        ready = tmp_path / f"ready {attempt}"
        options = ["--port", port, "--ready-file", str(ready)]
        with subprocess.Popen([*COMMAND, *options], stdout=subprocess.DEVNULL) as process:
            url = wait_for(ready)
            with httpx.Client(base_url=url, headers={"X-Api-Key": "k"}, timeout=60) as http:
                assert http.get("/sandbox/truth").json()["jobs"] == []
                body = {"url": f"{url}/site/pages/1", "processing_mode": "async"}
                assert http.post("/v1/extract", json=body).status_code == 202
                os.kill(process.pid, signal.SIGKILL)
                process.wait(timeout=60)
        port = url.rpartition(":")[2]
