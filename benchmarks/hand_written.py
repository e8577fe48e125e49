"""What one would write by hand for a night: asyncio, one client, a file of JSON lines; no ledger and no second chance.

`python -m benchmarks.hand_written HOST LIST OUTPUT MODE` submits the list's URLs as batches or one by one, polls until
each job has ended, and writes every result. It prints how many it has, and the seconds that took.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import httpx
from httpx_aiohttp import AiohttpTransport

BATCH, PAGE, PLACES = 1000, 50, 32
ENDED = ("completed", "failed", "cancelled")


async def scrape_batch(client: httpx.AsyncClient, urls: Sequence[str], output: TextIO) -> int:
    """Submit a batch, wait until it has ended, and write its items; returns how many."""
    answer = await client.post("/v1/batch", json={"urls": urls, "formats": ["markdown"]})
    path = f"/v1/batch/{answer.json()['job_id']}"
    batch: dict[str, Any] = {"status": "queued"}
    while batch["status"] not in ENDED:
        await asyncio.sleep(1)
        batch = (await client.get(path, params={"page_size": 1})).json()
    written = 0
    for page in range(1, -(-batch["total_urls"] // PAGE) + 1):
        answer = await client.get(path, params={"page": page, "page_size": PAGE})
        for item in answer.json()["results"]:
            output.write(json.dumps(item) + "\n")
            written += 1
    return written


async def scrape_page(client: httpx.AsyncClient, url: str, output: TextIO, places: asyncio.Semaphore) -> int:
    """Submit one URL, ask every second until its job has ended, and write it."""
    async with places:
        answer = await client.post(
            "/v1/extract", json={"url": url, "formats": ["markdown"], "processing_mode": "async"}
        )
    path = f"/v1/extract/{answer.json()['job_id']}"
    job = {"status": "queued"}
    while job["status"] not in ENDED:
        await asyncio.sleep(1)
        async with places:
            job = (await client.get(path)).json()
    output.write(json.dumps(job) + "\n")
    return 1


async def scrape(host: str, urls: Sequence[str], output: TextIO, mode: str) -> int:
    """Scrape all of the URLs, as batches or one by one; returns how many results were written."""
    headers = {"X-Api-Key": "benchmark"}
    async with httpx.AsyncClient(
        base_url=host, headers=headers, timeout=120, transport=AiohttpTransport()
    ) as client:
        if mode == "batch":
            parts = (urls[first : first + BATCH] for first in range(0, len(urls), BATCH))
            written = await asyncio.gather(*(scrape_batch(client, part, output) for part in parts))
        else:
            places = asyncio.Semaphore(PLACES)
            written = await asyncio.gather(*(scrape_page(client, url, output, places) for url in urls))
    return sum(written)


def main() -> None:
    host, target_list, file, mode = sys.argv[1:]
    urls = Path(target_list).read_text().split()
    began = time.perf_counter()
    with Path(file).open("w") as output:
        written = asyncio.run(scrape(host, urls, output, mode))
    print(json.dumps({"results": written, "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
