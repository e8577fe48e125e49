"""A throttling service: how soon submitting and settling find its limit, and how much of it they use from there on.

`python -m benchmarks.pacing` submits and settles at once against a sandbox that admits 20 requests a second, counted by
a token bucket, in fixed and in sliding windows of a second. Aimed at: nine tenths of the limit, and less than 2 %
refused. `--retry-after` says what its refusals tell: the seconds that are needed, a number, or none.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from scraper_pipeline.ledger import Ledger, Target, hash_url
from scraper_pipeline.lifecycle import LifecyclePolicy, Settlement, submit_jobs
from scraper_pipeline.local.stack import sandbox
from scraper_pipeline.sandbox.limiter import RateForm
from scraper_pipeline.scraper_api import Pacer, ScraperClient

LEAST_SHARE_USED, MOST_REFUSED = 0.9, 0.02
_DAY = "2026-03-01"
_WINDOW_SECONDS = 5.0
_POLICY = LifecyclePolicy(submission_mode="extract")


@dataclass(frozen=True)
class Limit:
    """Requests a second that the service admits, how it counts them, and the `Retry-After` of its refusals."""

    rate: float = 20.0
    form: RateForm = "bucket"
    retry_after: float | str | None = "needed"


@dataclass(frozen=True)
class Measured:
    """Seconds until the pace had settled, and what came from then on.

    It has settled at the beginning of the first five seconds in which nine tenths of the limit were answered and less
    than 2 % refused; infinite if there are none.
    """

    settled_after: float
    answered_per_second: float
    refused_share: float
    requests: int

    def is_met(self, limit: Limit) -> bool:
        return self.answered_per_second >= LEAST_SHARE_USED * limit.rate and self.refused_share < MOST_REFUSED


class WatchedPacer(Pacer):
    """Notes when requests were answered and refused."""

    def __init__(self) -> None:
        super().__init__()
        self.answered: list[float] = []
        self.refused: list[float] = []

    def speed_up(self, began: float) -> None:
        self.answered.append(time.monotonic())
        super().speed_up(began)

    def slow_down(self, began: float, pause: float | None) -> None:
        self.refused.append(time.monotonic())
        super().slow_down(began, pause)


def measure(limit: Limit, seconds: float = 90.0) -> Measured:
    """Submit and settle at once, as two runs in one process do, for so long against a sandbox with this limit."""
    faults = {"rate": limit.rate, "rate_form": limit.form, "rate_retry_after": limit.retry_after}
    # As many places as there are jobs, so that the rate is all that holds them up.
    places = ("--concurrency-limit", "1000000")
    options = ("--faults", json.dumps(faults), "--min-delay", "0.1", "--max-delay", "0.5", *places)
    with (
        tempfile.TemporaryDirectory(prefix="pacing-") as folder,
        sandbox(Path(folder), options) as url,
        Ledger.open(f"sqlite:///{Path(folder) / 'ledger.db'}") as ledger,
    ):
        # A target takes two requests and a little: so there is always work left.
        pages = [f"{url}/site/pages/{number}" for number in range(int(limit.rate * seconds * 0.75))]
        ledger.submissions.plan(_DAY, [Target(hash_url(page), page) for page in pages])
        pacer = WatchedPacer()
        began = time.monotonic()
        _work(ledger, url, pacer, began + seconds)
        return _evaluate(limit, pacer, began, seconds)


def _work(ledger: Ledger, url: str, pacer: Pacer, end: float) -> None:
    def open_client() -> ScraperClient:
        return ScraperClient(host=url, api_key="benchmark", pacer=pacer, connections=_POLICY.concurrency)

    async def submit() -> None:
        async with open_client() as client, asyncio.timeout(end - time.monotonic()):
            await submit_jobs(ledger, client, _DAY, _POLICY)

    def settle() -> None:
        for chunk in Settlement(ledger, open_client, [_DAY], _POLICY).outcomes():
            ledger.outcomes.commit(chunk)
            if time.monotonic() > end:
                return

    settling = threading.Thread(target=settle)
    settling.start()
    try:
        asyncio.run(submit())
    except TimeoutError:
        pass  # there is more to submit than the time allows
    finally:
        settling.join()


def _evaluate(limit: Limit, pacer: WatchedPacer, began: float, seconds: float) -> Measured:
    def count(moments: list[float], begin: float, end: float) -> int:
        return sum(began + begin <= at < began + end for at in moments)

    def between(begin: float, end: float) -> tuple[float, float]:
        answered, refused = count(pacer.answered, begin, end), count(pacer.refused, begin, end)
        return answered / (end - begin), refused / max(1, answered + refused)

    def has_settled(begin: float) -> bool:
        rate, refused = between(begin, begin + _WINDOW_SECONDS)
        return rate >= LEAST_SHARE_USED * limit.rate and refused < MOST_REFUSED

    begins = [tenth / 10 for tenth in range(int((seconds - _WINDOW_SECONDS) * 10))]
    settled_after = next((begin for begin in begins if has_settled(begin)), float("inf"))
    answered_per_second, refused_share = between(min(settled_after, seconds - _WINDOW_SECONDS), seconds)
    requests = len(pacer.answered) + len(pacer.refused)
    return Measured(settled_after, answered_per_second, refused_share, requests)


def show(rows: Sequence[tuple[Limit, Measured]]) -> str:
    """What was measured as a table in Markdown."""
    lines = [
        "| limit | its window | settled after, s | answered a second from then on | refused from then on |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {limit.rate:g}/s | {limit.form} | {measured.settled_after:.1f} | {measured.answered_per_second:.1f} |"
        f" {measured.refused_share:.2%} |"
        for limit, measured in rows
    ]
    return "\n".join(lines)


def _read_options() -> tuple[list[Limit], float]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--form", choices=get_args(RateForm), nargs="+", default=get_args(RateForm))
    parser.add_argument("--retry-after", default="needed", help="seconds, needed or none")
    parser.add_argument("--seconds", type=float, default=90.0)
    asked = parser.parse_args()
    retry_after = None if asked.retry_after == "none" else asked.retry_after
    return [Limit(asked.rate, form, retry_after) for form in asked.form], asked.seconds


def main() -> None:
    limits, seconds = _read_options()
    rows = [(limit, measure(limit, seconds)) for limit in limits]
    print(show(rows))
    sys.exit(not all(measured.is_met(limit) for limit, measured in rows))


if __name__ == "__main__":
    main()
