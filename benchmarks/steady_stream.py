"""A steady stream of completions through the whole stack: how long from a job's end until its page is stored.

`python -m benchmarks.steady_stream` starts what production runs, on loopback: the sandbox of the service, the webhook
receiver, and Dagster with its daemon, sensors and run workers. Jobs end only when they are told to, at a steady rate;
the clock of all of them is this machine's.
"""

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
from sqlalchemy import select

from scraper_pipeline.ledger import Channel, ChannelFigures, Ledger
from scraper_pipeline.ledger.schema import jobs, results
from scraper_pipeline.local.processes import ChildProcess, free_port
from scraper_pipeline.local.stack import LocalStack, local_stack
from scraper_pipeline.settings import load_settings

MOST_P50_SECONDS, MOST_P95_SECONDS = 2.0, 10.0
_PATIENCE_SECONDS = 180.0
_WARM_UP_JOBS = 60


@dataclass(frozen=True)
class Measured:
    """Seconds from completion to stored, in ascending order, and which channel brought how much of the news first."""

    latencies: Sequence[float]
    late_by_the_sender: float
    cold_start_seconds: float
    channels: Mapping[Channel, ChannelFigures]
    requests: Mapping[str, int]

    def quantile(self, share: float) -> float:
        return self.latencies[max(0, math.ceil(share * len(self.latencies)) - 1)]


def main() -> None:
    options = _read_options()
    with tempfile.TemporaryDirectory(prefix="steady-stream-") as folder:
        measured = measure(Path(folder), options)
    _show(measured, options)
    is_met = measured.quantile(0.5) <= MOST_P50_SECONDS and measured.quantile(0.95) <= MOST_P95_SECONDS
    sys.exit(0 if is_met else 1)


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=20.0, help="completions a second")
    parser.add_argument("--seconds", type=float, default=75.0, help="how long the stream goes on")
    parser.add_argument("--no-webhooks", action="store_true", help="by polling alone, to compare with")
    parser.add_argument("--ledger-url", help="a Postgres database that is empty; default: a SQLite file")
    parser.add_argument(
        "--drain-seconds", type=float, default=600.0, help="how long a settle run goes on before the next one"
    )
    return parser.parse_args()


def measure(folder: Path, options: argparse.Namespace) -> Measured:
    """Start everything, warm a settle run up, stream, and wait until the last page is stored."""
    target_list = folder / "targets.txt"
    environ = {
        "SCRAPER_LEDGER_URL": options.ledger_url or f"sqlite:///{folder / 'ledger.db'}",
        "SCRAPER_TARGETS": str(target_list),
        "SCRAPER_SUBMISSION_MODE": "extract",
        "SCRAPER_DRAIN_SECONDS": f"{options.drain_seconds:g}",
        "GEONODE_WEBHOOK_SECRETS_FILE": str(folder / "webhook-secrets.json"),
    }
    count = int(options.rate * options.seconds)
    sandbox_options = ("--faults", '{"never_finish": true}', "--concurrency-limit", "1000000")
    _say("Starting the sandbox, Dagster and the receiver ...")
    with local_stack(folder, environ, sandbox_options=sandbox_options) as stack:
        sandbox = Sandbox(stack.sandbox_url or "")
        pages = (f"{stack.sandbox_url}/site/pages/{number}\n" for number in range(count + _WARM_UP_JOBS))
        target_list.write_text("".join(pages))
        day = datetime.now(ZoneInfo(load_settings(stack.environ).timezone)).strftime("%Y-%m-%d")
        with (
            receiving(stack, folder, is_wanted=not options.no_webhooks),
            Ledger.open(environ["SCRAPER_LEDGER_URL"]) as ledger,
        ):
            stack.ui.launch("submit_jobs", day)
            _wait(
                lambda: ledger.progress.of(day).accepted == count + _WARM_UP_JOBS, "all jobs to be accepted"
            )
            job_ids = sandbox.job_ids()
            _say(f"{len(job_ids)} jobs are accepted. Waiting for a settle run ...")
            cold_start = _warm_up(sandbox, ledger, day, job_ids[:_WARM_UP_JOBS])
            _say(f"Streaming {count} completions at {options.rate:g} a second ...")
            streamed = job_ids[_WARM_UP_JOBS:]
            late = sandbox.finish_steadily(streamed, options.rate)
            _wait(lambda: ledger.progress.of(day).is_settled, "every page to be stored")
            return Measured(
                sorted(_latencies(ledger, set(streamed))),
                late,
                cold_start,
                ledger.channels.of(day),
                sandbox.requests(),
            )


@contextmanager
def receiving(stack: LocalStack, folder: Path, *, is_wanted: bool) -> Iterator[None]:
    """A registered receiver in a process of its own, if it is wanted."""
    if not is_wanted:
        yield
        return
    command = (sys.executable, "-m", "scraper_pipeline.cli")
    port = free_port()
    register = (*command, "webhooks", "register", "--url", f"http://127.0.0.1:{port}/webhooks/geonode")
    with ChildProcess(register, stack.environ, folder / "register.log") as registration:
        if registration.wait() != 0:
            raise RuntimeError(registration.last_lines())
    serve = (*command, "receiver", "--port", str(port))
    with ChildProcess(serve, stack.environ, folder / "receiver.log") as receiver:
        _wait(lambda: _is_ready(port), "the receiver to be ready")
        yield
        if not receiver.is_running:
            raise RuntimeError(f"The receiver ended:\n{receiver.last_lines()}")


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@dataclass(frozen=True)
class Sandbox:
    """The service's controls."""

    url: str

    def job_ids(self) -> list[str]:
        return [job["job_id"] for job in self._get("truth")["jobs"]]

    def requests(self) -> dict[str, int]:
        counts: dict[str, int] = self._get("requests")
        return counts

    def finish(self, job_ids: Sequence[str]) -> None:
        with self._client() as client:
            for job_id in job_ids:
                client.post(f"/sandbox/jobs/{job_id}/finish").raise_for_status()

    def finish_steadily(self, job_ids: Sequence[str], rate: float) -> float:
        """Bring jobs to their end one by one; returns by how many seconds the last one was late."""
        began = time.monotonic()
        with self._client() as client:
            for place, job_id in enumerate(job_ids):
                time.sleep(max(0.0, began + place / rate - time.monotonic()))
                client.post(f"/sandbox/jobs/{job_id}/finish").raise_for_status()
        return time.monotonic() - began - (len(job_ids) - 1) / rate

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, trust_env=False, timeout=30)

    def _get(self, what: str) -> Any:
        with self._client() as client:
            return client.get(f"/sandbox/{what}").raise_for_status().json()


def _warm_up(sandbox: Sandbox, ledger: Ledger, day: str, job_ids: Sequence[str]) -> float:
    """End a job a second until a settle run stores pages; returns how long the first one took. Then end the rest."""
    began = time.monotonic()
    for place, job_id in enumerate(job_ids):
        sandbox.finish([job_id])
        if ledger.progress.of(day).stored:
            sandbox.finish(job_ids[place + 1 :])
            return time.monotonic() - began
        time.sleep(1)
    raise RuntimeError("No settle run has started")


def _latencies(ledger: Ledger, streamed: set[str]) -> list[float]:
    with ledger.engine.connect() as connection:
        rows = connection.execute(
            select(jobs.c.job_id, jobs.c.completed_at, results.c.stored_at).join(
                results, results.c.job_id == jobs.c.job_id
            )
        ).all()
    return [
        (row.stored_at - row.completed_at) / timedelta(seconds=1) for row in rows if row.job_id in streamed
    ]


def _wait(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"Waited {_PATIENCE_SECONDS:g} s in vain for {what}")
        time.sleep(0.25)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _show(measured: Measured, options: argparse.Namespace) -> None:
    print(f"{len(measured.latencies)} pages at {options.rate:g} completions a second, seconds to stored:")
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)):
        print(f"  {name}  {measured.quantile(share):7.2f}")
    print(f"  (targets: p50 {MOST_P50_SECONDS:g}, p95 {MOST_P95_SECONDS:g})")
    print(f"the stream itself was late by {measured.late_by_the_sender:.2f} s at its end")
    print(f"the first page of all, before a settle run was under way: {measured.cold_start_seconds:.1f} s")
    for channel, figures in measured.channels.items():
        print(
            f"  {channel:13} first for {figures.first:5}, heard of {figures.heard:5};"
            f" seconds from completion p50 {figures.latency_p50:.2f}, p95 {figures.latency_p95:.2f}"
        )
    for call, count in sorted(measured.requests.items()):
        print(f"  {call}: {count}")


if __name__ == "__main__":
    main()
