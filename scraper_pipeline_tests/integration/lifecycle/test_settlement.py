"""Settlement against a real service: what each answer proves, and what a run leaves behind."""

import asyncio

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Channel
from scraper_pipeline.ledger.schema import dead_letters, jobs, results
from scraper_pipeline.lifecycle import SETTLE_LEASE
from scraper_pipeline.lifecycle.polling import EVERYWHERE, POLL_LEASE
from scraper_pipeline.sandbox import site_targets
from scraper_pipeline.scraper_api import ScraperError, ServerError, Unauthorized
from scraper_pipeline_tests.integration.ledger.driving import rows, state_of
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World

# What the ledger does in these, its own tests try on both databases.
on_sqlite = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)

NEXT_DAY = "2026-03-02"


def _letters(world: World) -> dict[str, str]:
    return {
        row.url: row.error_code for row in rows(world.ledger, select(dead_letters)) if row.resolved_at is None
    }


async def test_a_list_with_every_kind_of_trouble_comes_to_its_end(world: World) -> None:
    urls = site_targets(world.service.url, 20)
    world.service.set_faults(job_failed={"url_contains": "/slow/", "code": "TIMEOUT"})
    await world.bring_to_an_end(*urls)
    kinds = {url.rsplit("/site/", 1)[1].split("/")[0]: state_of(world.ledger, url) for url in urls}
    assert kinds == {
        "pages": "stored", "large": "stored", "empty": "stored", "flaky": "stored",
        "broken": "dead", "slow": "dead", "cancelled": "dead",
    }  # fmt: skip
    assert sorted(_letters(world).values()) == ["CANCELLED", "PERMANENT_BLOCK", "TIMEOUT"]
    assert world.ledger.progress.figures(DAY).empty == 1
    assert world.violations() == []


@on_sqlite
@pytest.mark.parametrize("form", ["null", "object", "blank"])
async def test_a_completed_job_without_content_is_stored_as_empty_and_never_fetched_again(
    world: World, form: str
) -> None:
    world.service.set_faults(empty_data={"form": form})
    await world.bring_to_an_end(world.url("pages/1"))
    assert [row.is_empty for row in rows(world.ledger, select(results))] == [True]
    asked = world.gets()
    world.clock.advance(3600)
    await world.poll()
    world.settle()
    assert world.gets() == asked
    assert world.violations() == []


async def test_odd_text_and_numbers_are_stored_alike_on_both_databases(world: World) -> None:
    world.service.set_faults(strange_text={"url_contains": "pages/2"})
    await world.bring_to_an_end(*world.urls(3))
    stored = {row.url: row for row in rows(world.ledger, select(results))}
    assert len(stored) == 3
    odd = stored[world.url("pages/2")]
    assert odd.markdown.startswith("a\ufffdb \ufffd \U0001f378 \\u0000\n")
    assert odd.metadata["title"] == "a\ufffdb"
    assert odd.metadata["k\ufffdey"] == "value\ufffd"
    assert odd.metadata["glass"] == "\U0001f378"
    assert odd.metadata["not_a_number"] == "NaN"
    assert odd.metadata["beyond_64_bits"] == str(2**63)
    assert odd.metadata["beyond_doubles"] == "1e400"
    assert world.violations() == []


@on_sqlite
async def test_a_page_that_expands_beyond_the_cap_is_parked_and_its_chunk_goes_on(world: World) -> None:
    world.max_body_bytes = 2 * 1024 * 1024
    world.service.set_faults(gzip_bomb={"url_contains": "pages/2", "megabytes": 20})
    await world.bring_to_an_end(*world.urls(3))
    assert _letters(world) == {world.url("pages/2"): "too_large"}
    assert world.ledger.progress.of(DAY).stored == 2
    assert world.posts() == 3, "a page that is too large is not bought again"
    assert world.ledger.audit.check() == []


@on_sqlite
async def test_a_result_that_has_expired_is_parked_with_its_reason(world: World) -> None:
    await world.submit(world.url("pages/1"))
    world.service.set_faults(expire_results_after=0.0)
    await world.bring_to_an_end()
    assert _letters(world) == {world.url("pages/1"): "expired"}


@on_sqlite
async def test_a_short_spell_of_404_is_waited_out(world: World) -> None:
    world.service.set_faults(job_404={"count": 1, "seconds": 2})
    await world.bring_to_an_end(world.url("pages/1"))
    assert world.ledger.progress.of(DAY).stored == 1
    assert world.violations() == []


async def test_a_long_spell_of_404_is_lost_and_the_job_that_comes_back_is_stored(world: World) -> None:
    world.service.set_faults(job_404=True)
    await world.bring_to_an_end(world.url("pages/1"))
    assert _letters(world) == {world.url("pages/1"): "lost"}
    assert world.ledger.audit.check() == []
    world.service.clear_faults()
    world.clock.advance(601)
    await world.poll()
    assert world.settle().stored == 1
    assert _letters(world) == {}
    assert world.posts() == 1
    assert world.violations() == []


@on_sqlite
@pytest.mark.parametrize("fault", [{"never_finish": True}, {"unknown_status": True, "never_finish": True}])
async def test_a_job_that_never_ends_is_raised_by_its_age(world: World, fault: dict[str, bool]) -> None:
    world.service.set_faults(**fault)
    await world.submit(world.url("pages/1"))
    world.patient(job_timeout=10.0, drain_quiet=20.0)
    world.settle()
    assert _letters(world) == {world.url("pages/1"): "timed_out"}
    assert world.ledger.audit.check() == []


@on_sqlite
def test_a_status_that_nobody_knows_is_kept_verbatim_by_settlement_too(world: World) -> None:
    world.service.set_faults(unknown_status={"status": "archived"}, never_finish=True)
    asyncio.run(world.submit(world.url("pages/1")))
    [job] = world.jobs()
    world.ledger.news.record([job["job_id"]], Channel.WEBHOOK)
    chunk = next(world.settlement().outcomes())
    assert world.ledger.outcomes.commit(chunk).postponed == 1
    assert [row.status for row in rows(world.ledger, select(jobs))] == ["archived"]


def test_nothing_is_claimed_before_the_stream_is_read(world: World) -> None:
    asyncio.run(world.submit(world.url("pages/1")))
    world.ledger.news.record([job["job_id"] for job in world.jobs()], Channel.WEBHOOK)
    world.settlement().outcomes()
    assert [one.pending for one in world.ledger.progress.partitions_to_settle()] == [1]


def test_a_chunk_that_nobody_commits_is_settled_by_a_later_run(world: World) -> None:
    asyncio.run(world.submit(*world.urls(5)))
    for _ in world.settlement().outcomes():
        break
    assert world.ledger.progress.of(DAY).accepted == 5
    world.clock.advance(world.policy.settle_lease)
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 5
    assert world.violations() == []


def test_a_run_that_is_abandoned_gives_up_its_heartbeat(world: World) -> None:
    asyncio.run(world.submit(world.url("pages/1")))
    stream = world.settlement().outcomes()
    next(iter(stream))
    assert world.ledger.leases.live(SETTLE_LEASE) == {DAY}
    stream.close()  # type: ignore[attr-defined]
    assert world.ledger.leases.live(SETTLE_LEASE) == set()


def test_two_runs_over_the_same_days_store_each_page_once(world: World) -> None:
    world.patient(settle_chunk=4)
    asyncio.run(world.submit(*world.urls(12)))
    asyncio.run(world.submit(*world.urls(4), day=NEXT_DAY))
    streams = [world.settlement(DAY, NEXT_DAY).outcomes() for _ in range(2)]
    stored = 0
    while streams:
        for stream in list(streams):
            chunk = next(stream, None)
            if chunk is None:
                streams.remove(stream)
            else:
                stored += world.ledger.outcomes.commit(chunk).stored
    assert stored == 16
    assert world.gets() == 16
    assert world.violations() == []


@on_sqlite
async def test_a_refused_key_stops_the_run_at_once_and_gives_the_jobs_back(world: World) -> None:
    await world.submit(*world.urls(5))
    world.ledger.news.record([job["job_id"] for job in world.jobs()], Channel.WEBHOOK)
    world.service.set_faults(unauthorized={"on": "get"})
    with pytest.raises(Unauthorized):
        world.settle()
    [pending] = world.ledger.progress.partitions_to_settle()
    assert pending.pending == 5
    world.service.clear_faults()
    assert world.settle().stored == 5


@on_sqlite
async def test_a_service_that_answers_nothing_is_an_error_and_gives_the_jobs_back(world: World) -> None:
    await world.submit(*world.urls(3))
    world.ledger.news.record([job["job_id"] for job in world.jobs()], Channel.WEBHOOK)
    world.service.set_faults(get_500=True)
    with pytest.raises(ServerError):
        world.settle()
    assert [one.pending for one in world.ledger.progress.partitions_to_settle()] == [3]
    assert _letters(world) == {}


@on_sqlite
async def test_a_service_that_answers_some_keeps_the_others_for_later(world: World) -> None:
    await world.submit(*world.urls(6))
    world.ledger.news.record([job["job_id"] for job in world.jobs()], Channel.WEBHOOK)
    world.service.set_faults(get_500={"count": 2, "url_contains": "pages/3"})
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 6
    assert world.violations() == []


@on_sqlite
@pytest.mark.parametrize("fault", ["truncated_body", "false_gzip", "get_500"])
async def test_a_job_whose_answer_stays_unreadable_is_parked_and_not_tried_for_ever(
    world: World, fault: str
) -> None:
    """It is the only one left, so every chunk of every run consists of it alone."""
    await world.submit(*world.urls(2))
    world.service.set_faults(**{fault: {"url_contains": "pages/1"}})
    for _ in range(6):
        try:
            world.settle()
        except ScraperError:
            world.clock.advance(world.policy.job_timeout)
    assert _letters(world) == {world.url("pages/1"): "unreadable"}
    assert world.ledger.progress.of(DAY).is_settled


@on_sqlite
async def test_an_outage_parks_nothing_however_old_the_jobs_are(world: World) -> None:
    await world.submit(*world.urls(2))
    world.ledger.news.record([job["job_id"] for job in world.jobs()], Channel.WEBHOOK)
    world.service.set_faults(get_500=True, list_500=True)
    world.clock.advance(10 * world.policy.job_timeout)
    with pytest.raises(ServerError):
        world.settle()
    assert _letters(world) == {}
    world.service.clear_faults()
    assert world.settle().stored == 2


@on_sqlite
async def test_a_run_ends_when_it_has_been_quiet_for_a_while(world: World) -> None:
    world.service.set_faults(never_finish=True)
    world.patient(drain=600.0, drain_quiet=5.0)
    await world.submit(world.url("pages/1"))
    began = world.clock.monotonic()
    world.settle()
    assert 5.0 <= world.clock.monotonic() - began < 60.0
    assert world.ledger.progress.of(DAY).accepted == 1


@on_sqlite
async def test_a_run_is_not_over_while_jobs_wait_for_their_turn_to_be_looked_at(world: World) -> None:
    world.patient(drain=600.0, drain_quiet=5.0)
    await world.submit(world.url("pages/1"))
    world.clock.advance(world.policy.longest_look)
    world.ledger.leases.take(POLL_LEASE, EVERYWHERE, "another poller, which keeps to the pace", 12.0)
    assert world.settle().stored == 1


@on_sqlite
async def test_a_run_ends_when_no_turn_to_look_comes(world: World) -> None:
    world.patient(drain=600.0, drain_quiet=5.0)
    await world.submit(world.url("pages/1"))
    world.clock.advance(world.policy.longest_look)
    world.ledger.leases.take(POLL_LEASE, EVERYWHERE, "another poller, which never ends", 6000.0)
    began = world.clock.monotonic()
    assert world.settle().stored == 0
    assert 20.0 <= world.clock.monotonic() - began < 60.0


@on_sqlite
async def test_a_run_does_not_wait_for_looks_where_nobody_polls(world: World) -> None:
    world.patient(drain=6000.0, drain_quiet=50.0, polls=False)
    await world.submit(world.url("pages/1"))
    world.clock.advance(world.policy.longest_look)
    began = world.clock.monotonic()
    assert world.settle().stored == 0
    assert 50.0 <= world.clock.monotonic() - began < 150.0


@on_sqlite
async def test_a_run_ends_when_its_time_is_used_up(world: World) -> None:
    world.service.set_faults(never_finish=True)
    world.patient(drain=5.0, drain_quiet=600.0)
    await world.submit(world.url("pages/1"))
    began = world.clock.monotonic()
    world.settle()
    assert 5.0 <= world.clock.monotonic() - began < 60.0


@on_sqlite
async def test_a_run_with_nothing_in_flight_asks_nothing(world: World) -> None:
    world.settle()
    assert world.service.requests() == {}


@on_sqlite
async def test_settlement_itself_finds_out_about_lost_answers(world: World) -> None:
    world.plan(world.url("pages/1"))
    [claimed] = world.claim()
    await world.post(claimed.url)
    world.let_grace_pass()
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 1
    assert world.violations() == []


@on_sqlite
def test_what_a_poll_finds_is_settled_without_a_pause(world: World) -> None:
    asyncio.run(world.submit(*world.urls(3)))
    world.await_ends()
    world.clock.advance(1)
    pauses: list[float] = []
    for chunk in world.settlement(sleep=pauses.append).outcomes():
        world.ledger.outcomes.commit(chunk)
    assert world.ledger.progress.of(DAY).stored == 3
    assert pauses == []


@on_sqlite
def test_a_run_counts_the_requests_that_it_made(world: World) -> None:
    asyncio.run(world.submit(*world.urls(3)))
    settlement = world.settlement()
    for chunk in settlement.outcomes():
        world.ledger.outcomes.commit(chunk)
    assert settlement.requests_made == world.gets() + world.listings()
