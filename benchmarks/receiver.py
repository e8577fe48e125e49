"""Measures the receiver beside a plain one, and beside itself without a database: `python -m benchmarks.receiver`.

All of them run at once and are loaded in turn, one short slice each, round after round: whatever else the machine
does then falls on all alike, and the medians of the rounds' ratios are what counts.
"""

import argparse
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.load import Measured, Orders
from scraper_pipeline_tests.postgres import EphemeralPostgres

PATH = "/webhooks/geonode"
SECRET = "measured-in-the-open"  # noqa: S105 - it protects nothing
CONNECTIONS = (1, 32, 256)
BODY_BYTES = (600, 50_000)
PLAIN, NOWHERE, SQLITE, POSTGRES = "plain receiver", "without a database", "on SQLite", "on Postgres"
START_SECONDS = 60.0

LEAST_TIMES_PLAIN = {600: 12.0, 50_000: 4.0}
LEAST_P99_PART = 15.0
LEAST_SHARE_OF_NOWHERE = 0.8


@dataclass(frozen=True)
class Scene:
    """One size of body over one number of connections."""

    body_bytes: int
    connections: int


Rounds = list[dict[str, Measured]]


@contextlib.contextmanager
def serving(*command: str, port: int) -> Iterator[int]:
    """A server in a process of its own; gives its port once it listens."""
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{command[0]} did not start")
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def all_servers(folder: Path) -> Iterator[dict[str, int]]:
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(EphemeralPostgres(durable=True))
        urls = {
            SQLITE: f"sqlite:///{folder / 'ledger.db'}",
            POSTGRES: postgres.url(postgres.create_database()),
        }
        port = _free_port()
        plain = ("benchmarks.plain_receiver", str(folder / "plain.db"), SECRET, str(port))
        ports = {PLAIN: stack.enter_context(serving(*plain, port=port))}
        port = _free_port()
        ports[NOWHERE] = stack.enter_context(serving("benchmarks.nowhere", SECRET, str(port), port=port))
        for name, url in urls.items():
            port = _free_port()
            options = ("--ledger-url", url, "--secret", SECRET, "--port", str(port))
            ports[name] = stack.enter_context(serving("scraper_pipeline.receiver", *options, port=port))
        yield ports


def load(port: int, scene: Scene, seconds: float) -> Measured:
    orders = Orders(port, PATH, SECRET, scene.connections, scene.body_bytes, seconds)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"],
        input=json.dumps(asdict(orders)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"the sender failed:\n{done.stderr[-2000:]}")
    measured = Measured(**json.loads(done.stdout))
    if set(measured.statuses) != {"200"}:
        raise SystemExit(f"not all deliveries were acknowledged: {measured.statuses}")
    return measured


def ratios(rounds: Rounds, name: str, other: str, figure: str) -> float:
    """The median over the rounds of one server's figure by another's."""
    return float(
        statistics.median(getattr(one[name], figure) / getattr(one[other], figure) for one in rounds)
    )


def show(scene: Scene, rounds: Rounds) -> None:
    print(f"\n{scene.body_bytes} bytes, {scene.connections} connections")
    print(f"  {'':20}  acknowledged/s   p50 ms   p99 ms   × plain   p99: plain ×   share of no database")
    for name in rounds[0]:
        speed, p50, p99 = (
            statistics.median(getattr(one[name], figure) for one in rounds)
            for figure in ("acknowledged_per_second", "p50_ms", "p99_ms")
        )
        times = ratios(rounds, name, PLAIN, "acknowledged_per_second")
        part = ratios(rounds, PLAIN, name, "p99_ms")
        share = ratios(rounds, name, NOWHERE, "acknowledged_per_second")
        print(
            f"  {name:20}  {speed:14.0f}  {p50:7.1f}  {p99:7.1f}  {times:8.1f}  {part:13.1f}  {share:21.0%}"
        )
    busiest = max(one.cpu_share for round_ in rounds for one in round_.values())
    if busiest > 0.8:
        print(f"  the sender was busy for {busiest:.0%} of the time: it may be what was measured")


def judge(results: dict[Scene, Rounds]) -> bool:
    print("\nTargets at 256 connections")
    all_met = True
    for scene, rounds in results.items():
        if scene.connections != max(CONNECTIONS):
            continue
        for name in (SQLITE, POSTGRES):
            times = ratios(rounds, name, PLAIN, "acknowledged_per_second")
            claims = [(f"at least {LEAST_TIMES_PLAIN[scene.body_bytes]:g} times the plain receiver", times,
                       LEAST_TIMES_PLAIN[scene.body_bytes])]  # fmt: skip
            if scene.body_bytes == min(BODY_BYTES):
                part = ratios(rounds, PLAIN, name, "p99_ms")
                claims.append((f"p99 at most 1/{LEAST_P99_PART:g} of it", part, LEAST_P99_PART))
                share = ratios(rounds, name, NOWHERE, "acknowledged_per_second")
                claims.append(
                    (f"{LEAST_SHARE_OF_NOWHERE:.0%} of it without a database", share, LEAST_SHARE_OF_NOWHERE)
                )
            for claim, measured, least in claims:
                met = measured >= least
                all_met &= met
                print(
                    f"  {'met' if met else 'NOT MET':8} {scene.body_bytes} bytes {name}: {claim} ({measured:.2f})"
                )
    return all_met


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long a slice is (default: 4)")
    parser.add_argument("--connections", type=int, nargs="+", choices=CONNECTIONS, default=CONNECTIONS)
    parser.add_argument(
        "--folder", type=Path, help="where the databases' files are made: a disk, and no RAM disk"
    )
    parser.add_argument("--json", type=Path, help="write all figures to this file as well")
    arguments = parser.parse_args()
    results: dict[Scene, Rounds] = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder, all_servers(Path(folder)) as ports:
        for body_bytes in BODY_BYTES:
            for connections in arguments.connections:
                scene = Scene(body_bytes, connections)
                results[scene] = [
                    {name: load(port, scene, arguments.seconds) for name, port in ports.items()}
                    for _ in range(arguments.rounds)
                ]
                show(scene, results[scene])
    if arguments.json is not None:
        figures = [
            {
                **asdict(scene),
                "rounds": [{name: asdict(one) for name, one in round_.items()} for round_ in rounds],
            }
            for scene, rounds in results.items()
        ]
        arguments.json.write_text(json.dumps(figures, indent=2))
    raise SystemExit(0 if judge(results) else 1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


if __name__ == "__main__":
    main()
