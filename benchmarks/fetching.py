"""Fetching jobs through httpx: the pipeline's client beside `httpx.AsyncClient` with its own pool.

`python -m benchmarks.fetching` takes turns at 10, 30 and 100 connections. Plain httpx is given all requests at once, as
`asyncio.gather` over a list does, and once more with no more of them under way than it has connections.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from scraper_pipeline.local.stack import sandbox
from scraper_pipeline.scraper_api import ScraperClient

CONNECTIONS = (10, 30, 100)
KEY = "benchmark"
Fetch = Callable[[], Awaitable[object]]


async def rate(fetch: Fetch, requests: int) -> float:
    """Requests a second when all are asked for at once, and wait for a connection where the client makes them."""
    began = time.perf_counter()
    await asyncio.gather(*(fetch() for _ in range(requests)))
    return requests / (time.perf_counter() - began)


async def rate_in_turns(fetch: Fetch, requests: int, places: int) -> float:
    """The same when no more than so many are asked for at a time."""
    semaphore = asyncio.Semaphore(places)

    async def fetch_in_turn() -> None:
        async with semaphore:
            await fetch()

    return await rate(fetch_in_turn, requests)


async def measure(url: str, connections: int, requests: int) -> tuple[float, float, float]:
    """Our client's rate, and plain httpx's with all requests at once and in turns, one after the other."""
    async with ScraperClient(host=url, api_key=KEY, connections=connections) as client:
        job_id = (await client.submit_extract(f"{url}/site/pages/1")).job_id
        for _ in range(100):
            if (await client.get_job(job_id)).is_terminal:
                break
            await asyncio.sleep(0.05)
        ours = await rate(lambda: client.get_job(job_id), requests)
    path = f"/v1/extract/{job_id}"
    async with plain_client(url, connections) as plain:
        at_once = await rate(lambda: plain.get(path), requests)
    async with plain_client(url, connections) as plain:
        in_turns = await rate_in_turns(lambda: plain.get(path), requests, connections)
    return ours, at_once, in_turns


def plain_client(url: str, connections: int) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(base_url=url, headers={"X-Api-Key": KEY}, limits=limits, timeout=600)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--requests", type=int, default=2000)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    print("| connections | client, requests/s | httpx, all at once | httpx, in turns |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, sandbox(Path(folder), ("--max-delay", "0.3")) as url:
        for connections in CONNECTIONS:
            rounds = [asyncio.run(measure(url, connections, asked.requests)) for _ in range(asked.rounds)]
            ours = statistics.median(one[0] for one in rounds)
            cells = []
            for which in (1, 2):
                theirs = statistics.median(one[which] for one in rounds)
                ratio = statistics.median(one[0] / one[which] for one in rounds)
                cells.append(f"{theirs:,.0f} ({ratio:.1f} times)")
            print(f"| {connections} | {ours:,.0f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
