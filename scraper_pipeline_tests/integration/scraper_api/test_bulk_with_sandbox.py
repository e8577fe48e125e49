"""The client's batches and crawls against the sandbox, which shares no code with it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.scraper_api import (
    Batch,
    BatchesNotOffered,
    Budget,
    CannotCancel,
    Crawl,
    CrawlScope,
    CrawlsNotOffered,
    NetworkError,
    PaymentRequired,
    RetryPolicy,
    ScraperClient,
    Throttled,
)

QUICK = RetryPolicy(first_wait=0.01, longest_wait=0.05)


@pytest.fixture
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer(SandboxConfig(min_delay=0, max_delay=0, fetch_timeout=0.3)) as server:
        yield server


@pytest.fixture
async def client(sandbox: SandboxServer) -> AsyncIterator[ScraperClient]:
    async with ScraperClient(host=sandbox.url, api_key="any", policy=QUICK) as client:
        yield client


def pages(sandbox: SandboxServer, *paths: str) -> list[str]:
    return [f"{sandbox.url}/site/{path}" for path in paths]


async def come_to_rest(look: Callable[[], Awaitable[Batch | Crawl]]) -> None:
    for _ in range(2000):
        if (await look()).is_at_rest:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it does not come to rest")


async def test_a_batch_comes_home_whole_although_a_page_of_it_fails(
    sandbox: SandboxServer, client: ScraperClient
) -> None:
    urls = pages(sandbox, *(f"pages/{number}" for number in range(248)), "broken/1", "flaky/1")
    accepted = await client.submit_batch([*urls, "no address"])
    assert (accepted.accepted_urls, accepted.invalid_urls) == (250, ("no address",))
    await come_to_rest(lambda: client.look_at_batch(accepted.job_id))
    sandbox.set_faults(results_500={"count": 1, "page": 4})

    items = [one async for page in client.read_batch(accepted.job_id) for one in page.items]

    assert [one.url for one in items] == urls
    assert sandbox.faults()["struck"]["results_500"] == 1
    codes = {one.url: one.error.code for one in items if one.error}
    assert codes == {urls[248]: "PERMANENT_BLOCK", urls[249]: "TEMPORARY_BLOCK"}
    truth = {(one["url"], one["status"], one["charged"]) for one in sandbox.truth()["items"]}
    assert {(one.url, one.status, one.tokens_charged) for one in items} == truth
    assert all(one.page and one.page.markdown for one in items[:248])


async def test_no_content_moves_before_the_batch_has_ended(
    sandbox: SandboxServer, client: ScraperClient
) -> None:
    sandbox.set_faults(never_finish={"url_contains": "code"})
    accepted = await client.submit_batch(pages(sandbox, "pages/1", "code"))

    looked = await client.look_at_batch(accepted.job_id)

    assert (looked.total, looked.items, looked.is_terminal) == (2, (), False)
    (line,) = (await client.list_batches()).jobs
    assert (line.job_id, line.accepted_urls) == (accepted.job_id, 2)


async def test_a_cancelled_batch_rests_when_what_was_at_work_has_ended(
    sandbox: SandboxServer, client: ScraperClient
) -> None:
    sandbox.set_faults(
        never_finish={"url_contains": "code"}, late_job={"seconds": 600, "url_contains": "pages"}
    )
    accepted = await client.submit_batch(pages(sandbox, "pages/1", "code"))

    assert (await client.cancel_batch(accepted.job_id)).in_flight == 1
    looked = await client.look_at_batch(accepted.job_id)
    assert (looked.is_terminal, looked.is_at_rest) == (True, False)
    with pytest.raises(CannotCancel):
        await client.cancel_batch(accepted.job_id)
    sandbox.finish_job(accepted.job_id)
    await come_to_rest(lambda: client.look_at_batch(accepted.job_id))


async def test_a_crawl_brings_pages_with_where_they_were_found(
    sandbox: SandboxServer, client: ScraperClient
) -> None:
    (seed,) = pages(sandbox, "pages/1")
    accepted = await client.submit_crawl(seed, scope=CrawlScope(depth=3, limit=60))
    await come_to_rest(lambda: client.look_at_crawl(accepted.job_id))

    items = [one async for page in client.read_crawl(accepted.job_id) for one in page.items]

    truth = sandbox.truth()["items"]
    assert [one.url for one in items] == [one["url"] for one in truth]
    assert len(items) == len({one.url for one in items})
    by_url = {one.url: one for one in items}
    for one in items[1:]:
        assert one.parent_url is not None
        assert one.url in by_url[one.parent_url].links
    (line,) = (await client.list_crawls(status="completed")).jobs
    assert (line.url, line.total_pages) == (seed, len(items))


async def test_lost_answers_and_refusals_are_told_apart(
    sandbox: SandboxServer, client: ScraperClient
) -> None:
    urls = pages(sandbox, "pages/1")
    sandbox.set_faults(answer_lost=1)
    with pytest.raises(NetworkError) as lost:
        await client.submit_batch(urls)
    assert not lost.value.proves_no_job
    assert len((await client.list_batches()).jobs) == 1

    sandbox.set_faults(balance=0)
    with pytest.raises(PaymentRequired) as unpaid:
        await client.submit_batch(urls)
    assert unpaid.value.proves_no_job


async def test_a_full_account_proves_that_there_is_no_batch(sandbox: SandboxServer) -> None:
    sandbox.set_faults(never_finish=True, work_concurrency=1)
    policy = RetryPolicy(throttling=Budget(retries=0, seconds=0))
    async with ScraperClient(host=sandbox.url, api_key="any", policy=policy) as client:
        await client.submit_batch(pages(sandbox, "pages/1"))
        with pytest.raises(Throttled) as raised:
            await client.submit_batch(pages(sandbox, "pages/2"))
        usage = await client.get_concurrency()

    assert (raised.value.code, raised.value.proves_no_job) == ("WORK_CONCURRENCY_LIMITED", True)
    assert (usage.in_use, usage.limit) == (1, 1)


@pytest.mark.parametrize("status", [404, 501])
async def test_a_service_without_batches_and_crawls_says_so(status: int) -> None:
    options = {"batches_offered": False, "crawls_offered": False, "unoffered_status": status}
    with SandboxServer(SandboxConfig.model_validate(options)) as sandbox:
        async with ScraperClient(host=sandbox.url, api_key="any") as client:
            with pytest.raises(BatchesNotOffered):
                await client.submit_batch(pages(sandbox, "pages/1"))
            with pytest.raises(CrawlsNotOffered):
                await client.submit_crawl(f"{sandbox.url}/site/pages/1")
