"""Crawls against a real service: one target, whose pages land as results with where they were found."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Channel
from scraper_pipeline.ledger.schema import current_results, dead_letters, jobs, results, submissions
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.scraper_api import CrawlScope, NetworkError
from scraper_pipeline.target_lists import make_target
from scraper_pipeline_tests.integration.ledger.driving import rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World, WorldClock

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)

POST = "POST /v1/crawl"


@pytest.fixture
def service(world_clock: WorldClock) -> Iterator[SandboxServer]:
    """Crawls come across pages that never answer: these are given up soon."""
    config = SandboxConfig(min_delay=0.0, max_delay=0.02, fetch_timeout=3.0)
    with SandboxServer(config, clock=world_clock.for_service) as server:
        yield server


def _plan(world: World, path: str = "", **scope: int) -> str:
    url = world.url(path)
    world.ledger.submissions.plan(DAY, [make_target(url, crawl=CrawlScope(**scope))])
    return url


def _posts(world: World) -> int:
    return world.service.requests().get(POST, 0)


def _bring_news(world: World) -> None:
    world.await_ends_of("crawls")
    world.ledger.news.record([crawl["job_id"] for crawl in world.truth("crawls")], Channel.WEBHOOK)


def _results(world: World) -> Sequence[Any]:
    return rows(world.ledger, select(results))


async def test_the_pages_of_a_crawl_land_as_results_with_parent_and_depth(world: World) -> None:
    url = _plan(world, depth=3, limit=120)
    assert (await world.submit()).accepted == 1
    assert (_posts(world), world.posts()) == (1, 0)
    _bring_news(world)
    world.settle()
    found = _results(world)
    assert len(found) > 50, "more than one page of results"
    assert len({row.url for row in found}) == len(found)
    assert {row.depth for row in found} >= {1, 2} or {row.depth for row in found} >= {0, 1}
    [root] = [row for row in found if row.url == url]
    assert root.parent_url is None
    assert all(row.parent_url for row in found if row is not root)
    [row] = rows(world.ledger, select(submissions))
    assert (row.state, row.kind) == ("stored", "crawl")
    assert len(rows(world.ledger, select(current_results.c.url))) == len(found)
    assert world.violations() == []


async def test_a_crawl_is_sent_once_whatever_runs_again(world: World) -> None:
    _plan(world, depth=2, limit=10)
    await world.submit()
    await world.submit()
    _bring_news(world)
    world.settle()
    before = len(_results(world))
    world.ledger.news.record([crawl["job_id"] for crawl in world.truth("crawls")], Channel.POLL)
    world.settle()
    assert (_posts(world), len(_results(world))) == (1, before)


async def test_a_crawl_that_finds_nothing_is_tried_again_and_parked_in_the_end(world: World) -> None:
    world.service.set_faults(job_failed={"code": "TIMEOUT"})
    _plan(world, "missing-altogether", depth=1, limit=5)
    await world.bring_to_an_end()
    assert _posts(world) == 3
    [letter] = rows(world.ledger, select(dead_letters))
    assert letter.error_code == "TIMEOUT"


async def test_pages_that_failed_are_counted_and_keep_no_others_from_being_stored(world: World) -> None:
    world.service.set_faults(job_failed={"url_contains": "/pages/", "code": "PERMANENT_BLOCK"})
    _plan(world, depth=2, limit=30)
    await world.submit()
    _bring_news(world)
    world.settle()
    [job] = rows(world.ledger, select(jobs))
    assert job.pages_failed > 0
    assert world.ledger.progress.of(DAY).stored == 1
    assert len(_results(world)) + job.pages_failed == len(world.truth("items"))


async def test_a_crawl_whose_answer_was_lost_is_found_by_its_url(world: World) -> None:
    _plan(world, depth=2, limit=10)
    world.service.set_faults(answer_lost=1)
    with pytest.raises(NetworkError):
        await world.submit()
    world.service.clear_faults()
    async with world.client() as client:
        await client.submit_crawl(world.url("pages/1"))
    world.await_ends_of("crawls")
    world.let_grace_pass()
    assert (await world.resolve()).bound == 1
    world.settle()
    assert (world.ledger.progress.of(DAY).stored, _posts(world)) == (1, 2)


async def test_a_crawl_that_may_cost_more_than_is_left_waits_and_keeps_nothing_else_back(
    world: World,
) -> None:
    _plan(world, depth=2, limit=40)
    world.plan(*world.urls(3))
    world.patient(daily_page_limit=30)
    report = await world.submit()
    assert (report.accepted, _posts(world)) == (3, 0)
    world.patient(daily_page_limit=50)
    await world.submit()
    assert _posts(world) == 1
    assert world.ledger.submissions.pages_committed_since(world.clock.now().replace(year=2020)) == 43


async def test_the_sweep_finds_a_crawl_that_ended_unheard_of(world: World) -> None:
    _plan(world, depth=2, limit=10)
    await world.submit()
    world.await_ends_of("crawls")
    world.clock.advance(world.policy.sweep_after + 1)
    assert (await world.sweep()).ended == 1
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 1
