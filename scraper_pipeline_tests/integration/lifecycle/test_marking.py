"""With marked URLs the job of a lost answer is told for certain, where the service echoes them."""

from collections.abc import Iterator

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import BatchTerms, mark_url
from scraper_pipeline.ledger.schema import results, submissions
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.scraper_api import ExtractOptions
from scraper_pipeline_tests.integration.ledger.driving import rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World, WorldClock

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)


@pytest.fixture(params=["verbatim"])
def service(request: pytest.FixtureRequest, world_clock: WorldClock) -> Iterator[SandboxServer]:
    config = SandboxConfig(min_delay=0.0, max_delay=0.02, fetch_timeout=30.0, echo_urls=request.param)
    with SandboxServer(config, clock=world_clock.for_service) as server:
        yield server


async def _lose_marked(world: World, url: str) -> str:
    """Send a marked URL as a run does that is killed before it records anything; returns the job."""
    world.patient(mark_urls=True)
    world.plan(url)
    [claimed] = world.claim()
    return (await world.post(mark_url(url, claimed.request_id))).job_id


async def test_another_programs_job_for_the_same_url_is_not_taken(world: World) -> None:
    job = await _lose_marked(world, world.url("pages/1"))
    await world.post(world.url("pages/1"))
    world.let_grace_pass()
    assert (await world.resolve()).bound == 1
    assert [row.job_id for row in rows(world.ledger, select(submissions))] == [job]


@pytest.mark.parametrize("service", ["without_fragment"], indirect=True)
async def test_where_the_service_drops_fragments_the_bare_url_is_matched(world: World) -> None:
    job = await _lose_marked(world, world.url("pages/1"))
    world.let_grace_pass()
    assert (await world.resolve()).bound == 1
    assert [row.job_id for row in rows(world.ledger, select(submissions))] == [job]


async def test_the_stored_result_has_the_url_of_the_list(world: World) -> None:
    world.patient(mark_urls=True)
    await world.submit(world.url("pages/1"))
    world.settle()
    assert [row.url for row in rows(world.ledger, select(results))] == [world.url("pages/1")]
    assert world.ledger.progress.of(DAY).stored == 1
    assert world.violations() == []


async def test_a_foreign_job_without_a_marker_is_not_taken_where_bound_jobs_show_theirs(world: World) -> None:
    world.patient(mark_urls=True)
    await world.submit(world.url("pages/1"))
    world.plan(world.url("pages/2"))
    world.claim()  # and killed before its POST
    await world.post(world.url("pages/2"))
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again) == (0, 1)


async def _foreign_batch(world: World, *urls: str) -> None:
    async with world.client() as client:
        await client.submit_batch(urls, ExtractOptions(formats=("html",)))
    world.await_batches()


async def test_a_foreign_batch_without_markers_is_not_taken_where_bound_ones_show_theirs(
    world: World,
) -> None:
    world.patient(mark_urls=True, submission_mode="batch")
    await world.submit(*world.urls(3))
    later = [world.url(f"pages/{number}") for number in range(11, 15)]
    world.plan(*later)
    world.ledger.submissions.claim(DAY, 1000, world.policy.send_lease, BatchTerms(2, 10, lambda _: True))
    await _foreign_batch(world, *later)
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again) == (0, 4)


async def test_a_batch_with_the_markers_of_another_request_is_not_taken(world: World) -> None:
    world.patient(mark_urls=True, submission_mode="batch")
    urls = world.urls(3)
    world.plan(*urls)
    world.ledger.submissions.claim(DAY, 1000, world.policy.send_lease, BatchTerms(2, 10, lambda _: True))
    await _foreign_batch(world, *(mark_url(url, "another-request") for url in urls))
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again) == (0, 3)


async def test_a_batch_of_ours_whose_urls_have_fragments_of_their_own_is_taken(world: World) -> None:
    """Such URLs are sent as they are: they can't show a marker."""
    world.patient(mark_urls=True, submission_mode="batch")
    await world.submit(*world.urls(3))
    later = [f"{world.url(f'pages/{number}')}#part" for number in range(11, 15)]
    world.plan(*later)
    world.ledger.submissions.claim(DAY, 1000, world.policy.send_lease, BatchTerms(2, 10, lambda _: True))
    await _foreign_batch(world, *later)
    world.let_grace_pass()
    assert (await world.resolve()).bound == 4
