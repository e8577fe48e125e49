"""Fetching jobs: our client beside httpx's own pool, at 10, 30 and 100 connections, in turns, as ratios.

Use: python -m benchmarks.fetching [--requests N] [--rounds N]
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


async def measure(url: str, connections: int, requests: int) -> tuple[float, float]:
    """Our client's rate and plain httpx's, one after the other."""
    async with ScraperClient(host=url, api_key=KEY, connections=connections) as client:
        job_id = (await client.submit_extract(f"{url}/site/pages/1")).job_id
        for _ in range(100):
            if (await client.get_job(job_id)).is_terminal:
                break
            await asyncio.sleep(0.05)
        ours = await rate(lambda: client.get_job(job_id), requests)
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    headers = {"X-Api-Key": KEY}
    async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=120) as plain:
        path = f"/v1/extract/{job_id}"
        await plain.get(path)
        theirs = await rate(lambda: plain.get(path), requests)
    return ours, theirs


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--requests", type=int, default=600)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    print(
        f"{'connections':>11}  {'client/s':>9}  {'httpx/s':>9}  {'ratio':>6}   (medians of {asked.rounds} rounds)"
    )
    with tempfile.TemporaryDirectory() as folder, sandbox(Path(folder), ("--max-delay", "0.3")) as url:
        for connections in CONNECTIONS:
            rounds = [asyncio.run(measure(url, connections, asked.requests)) for _ in range(asked.rounds)]
            ours, theirs = (statistics.median(figures) for figures in zip(*rounds, strict=True))
            ratio = statistics.median(our / their for our, their in rounds)
            print(f"{connections:>11}  {ours:>9.0f}  {theirs:>9.0f}  {ratio:>6.1f}")


if __name__ == "__main__":
    main()
