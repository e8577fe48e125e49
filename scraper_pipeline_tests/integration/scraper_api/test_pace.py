"""The client's pace against the sandbox's limit, in real time."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from operator import sub

from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.scraper_api import Pacer, ScraperClient

RATE = 20
LEAST_ANSWERED, MOST_REFUSED = RATE / 2, 0.1
SETTLED_AFTER = 4.0
WINDOW_SECONDS, MOST_WINDOWS = 3.0, 10


async def submit_and_read(client: ScraperClient, url: str) -> None:
    """A submission and a look at its job, again and again."""
    while True:
        accepted = await client.submit_extract(url)
        await client.get_job(accepted.job_id)


def answers(sandbox: SandboxServer) -> tuple[int, int]:
    """How many requests were answered and how many refused, by the service's own books."""
    counts: dict[str, int] = sandbox.truth()["answers"]
    refused = sum(count for name, count in counts.items() if name.endswith(" 429"))
    return sum(counts.values()) - refused, refused


async def use(limit: Mapping[str, object]) -> tuple[float, float]:
    """Answered requests a second and the share refused, once settled, of two clients that share a pacer.

    In the first window that is as it should be, or else the last: a machine that was held up in one proves nothing.
    """
    faults = {"rate": RATE, **limit}
    config = SandboxConfig(min_delay=0, max_delay=0.1)
    with SandboxServer(config) as sandbox:
        sandbox.set_faults(**faults)
        pacer = Pacer()
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(ScraperClient(host=sandbox.url, api_key="any", pacer=pacer))
                for _ in range(2)
            ]
            work = [
                asyncio.create_task(submit_and_read(client, f"{sandbox.url}/site/pages/1"))
                for client in clients
                for _ in range(16)
            ]
            await asyncio.sleep(SETTLED_AFTER)
            for _ in range(MOST_WINDOWS):
                began, before = time.monotonic(), answers(sandbox)
                await asyncio.sleep(WINDOW_SECONDS)
                answered, refused = map(sub, answers(sandbox), before)
                rate = answered / (time.monotonic() - began)
                share = refused / max(1, answered + refused)
                if rate > LEAST_ANSWERED and share < MOST_REFUSED:
                    break
            assert not any(one.done() for one in work), "nobody gave up"
            for one in work:
                one.cancel()
            await asyncio.gather(*work, return_exceptions=True)
    return rate, share


async def test_a_limit_is_used_and_hardly_ever_exceeded() -> None:
    """Three services at once, that count in different ways; the benchmarks tell how near it comes to the limit."""
    limits: tuple[Mapping[str, object], ...] = (
        {"rate_form": "bucket"},
        {"rate_form": "fixed", "rate_retry_after": None},
        {"rate_form": "sliding", "rate_retry_after": None},
    )

    used = await asyncio.gather(*map(use, limits))

    for limit, (answered, refused) in zip(limits, used, strict=True):
        assert answered > LEAST_ANSWERED, limit
        assert refused < MOST_REFUSED, limit
