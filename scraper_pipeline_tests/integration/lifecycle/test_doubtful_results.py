"""Results that are not what the counts promise, answers that were lost: nothing is bought again, nothing is lost."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from scraper_pipeline.ledger import Channel, Kind, Target
from scraper_pipeline.ledger.schema import jobs, results, submissions
from scraper_pipeline.lifecycle import ResubmissionReport, resubmit_targets
from scraper_pipeline.lifecycle.bulk import DOUBTS
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline.scraper_api import NetworkError, ScraperClient
from scraper_pipeline_tests.integration.ledger.driving import rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World, WorldClock

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)


@dataclass
class SetClock(WorldClock):
    """The pipeline's clock, which may be off; the service keeps the true time."""

    ahead: float = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead)

    @property
    def for_service(self) -> Clock:
        return Clock(now=super().now, monotonic=self.monotonic)


@pytest.fixture
def world_clock() -> SetClock:
    return SetClock()


@pytest.fixture
def service(world_clock: SetClock, request: pytest.FixtureRequest) -> Iterator[SandboxServer]:
    """Crawls come across pages that never answer: these are given up soon."""
    ordered = {"fetch_timeout": 3.0, **getattr(request, "param", {})}
    config = SandboxConfig.model_validate({"min_delay": 0.0, "max_delay": 0.02, **ordered})
    with SandboxServer(config, clock=world_clock.for_service) as server:
        yield server


@pytest.fixture(autouse=True)
def _in_batches(world: World) -> None:
    world.patient(submission_mode="auto", smallest_batch=50, largest_batch=1000)


def _states(world: World) -> dict[str, int]:
    counted = select(submissions.c.state, func.count().label("rows")).group_by(submissions.c.state)
    return {row.state: row.rows for row in rows(world.ledger, counted)}


def _charged(world: World) -> int:
    return sum(item["charged"] for item in [*world.jobs(), *world.truth("items")])


def _plan_crawl(world: World, path: str = "pages/1", **scope: int) -> None:
    world.ledger.submissions.plan(DAY, [Target("crawl", world.url(path), scope, is_crawl=True)])


def _bring_news(world: World, part: str = "batches") -> None:
    world.await_ends_of(part)
    world.ledger.news.record([one["job_id"] for one in world.truth(part)], Channel.WEBHOOK)


async def _lose(world: World, *urls: str) -> None:
    world.service.set_faults(answer_lost=1)
    with pytest.raises(NetworkError):
        await world.submit(*urls)
    world.service.clear_faults()


async def _resubmit(world: World, limit: int | None = None) -> ResubmissionReport:
    async with world.client() as client:
        return await resubmit_targets(world.ledger, client, DAY, "failed", limit)


async def test_an_empty_page_of_results_is_read_again_and_not_paid_again(world: World) -> None:
    world.service.set_faults(results_empty_page={"page": 2, "count": 1})
    await world.submit(*world.urls(120))
    _bring_news(world)
    world.settle()
    await world.bring_to_an_end()
    assert (_charged(world), _states(world)) == (120, {"stored": 120})


async def test_a_page_of_results_that_stays_empty_for_half_a_minute_is_not_paid_again(world: World) -> None:
    world.patient(doubt_for=600.0)
    world.service.set_faults(results_empty_page={"page": 2, "count": 12})
    await world.submit(*world.urls(120))
    _bring_news(world)
    await world.bring_to_an_end()
    assert (_charged(world), _states(world)) == (120, {"stored": 120})


async def test_a_page_of_results_that_stays_empty_for_good_is_tried_anew(world: World) -> None:
    world.service.set_faults(results_empty_page={"page": 2, "count": 60})
    await world.submit(*world.urls(70))
    _bring_news(world)
    await world.bring_to_an_end()
    assert _states(world) == {"stored": 70, "superseded": 20}


@pytest.mark.parametrize("service", [{"echo_urls": "without_fragment"}], indirect=True)
async def test_rows_that_differ_by_a_fragment_each_have_their_page_where_fragments_are_left_away(
    world: World,
) -> None:
    urls = world.urls(60)
    await world.submit(*urls, *(f"{url}#part" for url in urls[:5]))
    _bring_news(world)
    await world.bring_to_an_end()
    assert (_charged(world), _states(world)) == (65, {"stored": 65})


async def test_a_page_is_never_taken_for_that_of_another_fragment(world: World) -> None:
    """Of a row that lacks its item, another reading meets items of the rows that are stored already."""
    urls = [f"{world.url('pages/1')}#{part}" for part in range(60)]
    read = ScraperClient.read_batch_page

    async def without_the_last(self: ScraperClient, *args: Any, **options: Any) -> list[Any]:
        return [
            part.model_copy(update={"items": tuple(one for one in part.items if not one.url.endswith("#59"))})
            for part in await read(self, *args, **options)
        ]

    await world.submit(*urls)
    _bring_news(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScraperClient, "read_batch_page", without_the_last)
        await world.bring_to_an_end()
    assert _states(world) == {"stored": 60, "superseded": 1}, "the last one was tried again, by itself"


async def test_runs_that_died_are_no_readings_of_an_empty_page(world: World) -> None:
    await world.submit(*world.urls(60))
    _bring_news(world)
    for _ in range(DOUBTS):
        world.ledger.outcomes.claim(DAY, 1, 1.0, (Kind.BATCH,))
        world.clock.advance(2)
    world.service.set_faults(results_empty_page={"page": 1, "count": 1})
    world.settle()
    assert (_charged(world), _states(world)) == (60, {"stored": 60})


async def test_a_run_that_goes_on_where_another_ended_meets_another_order_and_takes_nothing_for_missing(
    world: World,
) -> None:
    await world.submit(*world.urls(100))
    _bring_news(world)
    world.patient(pages_at_once=1)

    def read_the_first_page_and_die() -> None:
        outcomes = world.settlement().outcomes()
        world.ledger.outcomes.commit(next(outcomes))

    world.in_thread(read_the_first_page_and_die)
    assert _states(world) == {"accepted": 50, "stored": 50}
    world.service.set_faults(results_reversed=True)
    await world.bring_to_an_end()
    assert (_charged(world), _states(world)) == (100, {"stored": 100})


async def test_a_lost_batch_of_which_the_only_page_comes_empty_is_not_paid_again(world: World) -> None:
    await _lose(world, *world.urls(50))
    world.await_batches()
    world.let_grace_pass()
    world.service.set_faults(results_empty_page={"page": 1, "count": 1})
    report = await world.resolve()
    assert (report.planned_again, report.waiting) == (0, 50)
    assert (await world.resolve()).bound == 50


async def test_an_empty_page_of_a_crawl_loses_none_of_its_pages(world: World) -> None:
    world.service.set_faults(results_empty_page={"page": 1, "count": 1})
    _plan_crawl(world, limit=20, depth=3)
    await world.submit()
    _bring_news(world, "crawls")
    world.settle()
    [job] = rows(world.ledger, select(jobs))
    assert len(rows(world.ledger, select(results.c.url))) + job.pages_failed == len(world.truth("items"))


async def test_what_a_crawl_counts_and_never_shows_counts_as_failed(world: World) -> None:
    world.service.set_faults(results_empty_page={"page": 2, "count": 60})
    _plan_crawl(world, limit=70, depth=4)
    await world.submit()
    _bring_news(world, "crawls")
    await world.bring_to_an_end()
    [job] = rows(world.ledger, select(jobs))
    stored = len(rows(world.ledger, select(results.c.url)))
    assert stored < len(world.truth("items")) == stored + job.pages_failed


async def test_an_item_of_an_ended_batch_that_still_runs_is_not_bought_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.submit(*world.urls(60))
    read = ScraperClient.read_batch_page

    async def with_one_that_runs(self: ScraperClient, *args: Any, **options: Any) -> list[Any]:
        return [
            part.model_copy(
                update={
                    "items": tuple(
                        item.model_copy(update={"status": "archived"}) if item.url.endswith("/1") else item
                        for item in part.items
                    )
                }
            )
            for part in await read(self, *args, **options)
        ]

    monkeypatch.setattr(ScraperClient, "read_batch_page", with_one_that_runs)
    _bring_news(world)
    world.settle()
    assert _states(world) == {"stored": 59, "dead": 1}


async def test_pages_of_a_crawl_that_are_too_large_are_counted(world: World) -> None:
    _plan_crawl(world, limit=10, depth=2)
    await world.submit()
    world.max_body_bytes = 3000
    _bring_news(world, "crawls")
    world.settle()
    [job] = rows(world.ledger, select(jobs))
    assert job.pages_failed > 0
    assert len(rows(world.ledger, select(results.c.url))) + job.pages_failed == len(world.truth("items"))


@pytest.mark.parametrize("kind", ["batch", "crawl"])
async def test_a_given_up_job_of_many_pages_is_asked_before_it_is_submitted_again(
    world: World, kind: str
) -> None:
    world.service.set_faults(never_finish=True)
    if kind == "crawl":
        _plan_crawl(world, limit=10)
        await world.submit()
    else:
        await world.submit(*world.urls(60))
    world.clock.advance(world.policy.job_timeout + 1)
    await world.poll()
    world.settle()
    given_up = _states(world)["dead"]
    report = await _resubmit(world)
    assert (report.planned, report.running) == (0, given_up)


@pytest.mark.parametrize("service", [{"fetch_timeout": 30.0}], indirect=True)
async def test_a_target_that_can_not_be_asked_about_holds_up_no_other_resubmission(world: World) -> None:
    world.service.set_faults(false_gzip={"url_contains": "pages/1"})
    await world.submit(world.url("pages/1"), world.url("broken/1"))
    world.await_ends()
    world.ledger.news.record([job["job_id"] for job in world.jobs()], Channel.WEBHOOK)
    world.clock.advance(world.policy.job_timeout + 1)
    world.settle()
    assert _states(world) == {"dead": 2}
    assert (await _resubmit(world, limit=1)).planned == 1
    again = await _resubmit(world)
    assert (again.planned, again.running) == (0, 1)


async def test_hosts_whose_clocks_differ_by_seconds_do_not_pay_a_page_twice(
    world: World, world_clock: SetClock
) -> None:
    world_clock.ahead = 3.0
    await _lose(world, world.url("pages/1"))
    world_clock.ahead = 0.0
    world.await_ends()
    world.let_grace_pass()
    world.clock.advance(10)
    report = await world.resolve()
    assert (report.bound, report.planned_again) == (1, 0)


@pytest.mark.parametrize("path", ["pages/1", "pages/1#part"])
async def test_a_service_that_normalises_urls_hides_no_job(
    world: World, world_clock: SetClock, path: str
) -> None:
    config = SandboxConfig(min_delay=0.0, max_delay=0.02, echo_urls="normalised")
    with SandboxServer(config, clock=world_clock.for_service) as world.service:
        await _lose(world, world.url(path).replace("http://", "HTTP://"))
        world.await_ends()
        assert (await world.sweep()).foreign == 0
        world.let_grace_pass()
        assert (await world.resolve()).bound == 1


async def test_of_several_batches_the_one_with_most_of_our_urls_is_taken(world: World) -> None:
    await _lose(world, *world.urls(60))
    async with world.client() as client:
        await client.submit_batch([world.url("pages/1")])
    world.await_batches()
    world.let_grace_pass()
    assert (await world.resolve()).bound == 60
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 60


async def test_a_marked_crawl_is_told_from_another_programs(world: World) -> None:
    world.patient(mark_urls=True)
    _plan_crawl(world, limit=10)
    await _lose(world)
    world.clock.advance(1)
    async with world.client() as client:
        await client.submit_crawl(world.url("pages/1"))
    world.await_ends_of("crawls")
    world.let_grace_pass()
    await world.resolve()
    [row] = rows(world.ledger, select(submissions))
    assert row.job_id == world.truth("crawls")[0]["job_id"]
