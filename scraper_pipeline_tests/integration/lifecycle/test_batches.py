"""Batches against a real service: sent whole, read page by page, each URL with an outcome of its own."""

from typing import Any

import pytest
from sqlalchemy import func, select

from scraper_pipeline.ledger import BatchTerms, Channel, CommitReport, JobOutcome, Target, hash_url
from scraper_pipeline.ledger.schema import dead_letters, jobs, processed_events, results, submissions
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.scraper_api import NetworkError, ServerError
from scraper_pipeline_tests.integration.ledger.driving import rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World, WorldClock

BAD = "ftp://host.test/file"
POST, GET = "POST /v1/batch", "GET /v1/batch/{job_id}"


@pytest.fixture(autouse=True)
def _in_batches(world: World) -> None:
    world.patient(submission_mode="auto", smallest_batch=50, largest_batch=1000)


def _requests(world: World, call: str) -> int:
    return world.service.requests().get(call, 0)


def _batches(world: World) -> list[dict[str, Any]]:
    return world.truth("batches")


def _states(world: World) -> dict[str, int]:
    counted = select(submissions.c.state, func.count().label("rows")).group_by(submissions.c.state)
    return {row.state: row.rows for row in rows(world.ledger, counted)}


async def _lose(world: World, *urls: str) -> None:
    """Submit a batch that the service takes, and whose answer is lost."""
    world.service.set_faults(answer_lost=1)
    with pytest.raises(NetworkError):
        await world.submit(*urls)


def _bring_news(world: World) -> None:
    world.await_batches()
    world.ledger.news.record([batch["job_id"] for batch in _batches(world)], Channel.WEBHOOK)


async def test_fifty_targets_with_equal_options_go_out_as_one_batch(world: World) -> None:
    report = await world.submit(*world.urls(60))
    assert (report.accepted, _requests(world, POST), world.posts()) == (60, 1, 0)
    assert {row.kind for row in rows(world.ledger, select(submissions))} == {"batch"}
    assert len({row.request_id for row in rows(world.ledger, select(submissions))}) == 1
    assert [row.kind for row in rows(world.ledger, select(jobs))] == ["batch"]


async def test_fewer_than_fifty_go_out_one_by_one(world: World) -> None:
    await world.submit(*world.urls(49))
    assert (_requests(world, POST), world.posts()) == (0, 49)


async def test_a_batch_holds_equal_options_only_and_none_that_no_batch_takes(world: World) -> None:
    urls = world.urls(180)
    groups: list[tuple[list[str], dict[str, Any]]] = [
        (urls[:60], {}),
        (urls[60:120], {"render_js": True}),
        (urls[120:], {"timeout": 5000}),
    ]
    interleaved = [
        Target(hash_url(url), url, options)
        for trio in zip(*([(u, o) for u in us] for us, o in groups), strict=True)
        for url, options in trio
    ]
    world.ledger.submissions.plan(DAY, interleaved)
    report = await world.submit()
    assert (report.accepted, _requests(world, POST), world.posts()) == (180, 2, 60)
    by_request: dict[str, set[bool]] = {}
    for row in rows(world.ledger, select(submissions).where(submissions.c.kind == "batch")):
        by_request.setdefault(row.request_id, set()).add(bool(row.options.get("render_js")))
    assert sorted(by_request.values(), key=str) == [{False}, {True}]


async def test_more_than_a_batch_takes_goes_out_as_several(world: World) -> None:
    world.patient(largest_batch=100)
    await world.submit(*world.urls(250))
    assert (_requests(world, POST), world.posts()) == (3, 0)


async def test_a_service_without_batches_gets_single_jobs(world: World, world_clock: WorldClock) -> None:
    config = SandboxConfig(min_delay=0.0, max_delay=0.02, batches_offered=False)
    with SandboxServer(config, clock=world_clock.for_service) as world.service:
        report = await world.submit(*world.urls(60))
        assert (report.accepted, report.errors, world.posts()) == (60, {}, 60)


async def test_a_page_limit_bounds_the_batch(world: World) -> None:
    report = await world.submit(*world.urls(120), max_pages=70)
    assert (report.accepted, report.limited, _states(world)) == (70, True, {"accepted": 70, "planned": 50})


async def test_all_pages_of_a_batch_are_stored_with_few_requests(world: World) -> None:
    await world.submit(*world.urls(230))
    _bring_news(world)
    report = world.settle()
    assert report.stored == 230
    assert _requests(world, GET) == 1 + 5, "one look without content, and five pages of results"
    assert {row.processed_at is not None for row in rows(world.ledger, select(processed_events))} == {True}
    assert world.violations() == []


async def test_no_page_content_moves_before_the_batch_has_ended(world: World) -> None:
    world.service.set_faults(never_finish=True, results_500={"page": 1})
    await world.submit(*world.urls(60))
    world.clock.advance(5)
    for _ in range(5):
        await world.poll()
        world.clock.advance(1)
    world.ledger.news.record([batch["job_id"] for batch in _batches(world)], Channel.WEBHOOK)
    world.patient(drain_quiet=0.0)
    world.settle()
    assert world.service.faults()["struck"].get("results_500", 0) == 0, "no page of results was asked for"
    assert world.ledger.progress.of(DAY).accepted == 60


async def test_a_poll_looks_at_batches_by_listing_and_settles_them(world: World) -> None:
    world.patient(largest_batch=50)
    await world.submit(*world.urls(200))
    world.await_batches()
    world.clock.advance(2)
    report = await world.poll()
    assert (report.looked, report.ended, report.requests) == (4, 4, 1)
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 200


async def test_each_url_has_an_outcome_of_its_own_and_only_what_may_succeed_goes_out_again(
    world: World,
) -> None:
    urls = world.urls(60)
    world.service.set_faults(
        job_failed=[
            {"url_contains": "/pages/7", "count": 1, "code": "TIMEOUT"},
            {"url_contains": "/pages/9", "code": "PERMANENT_BLOCK"},
        ]
    )
    await world.submit(*urls)
    _bring_news(world)
    report = world.settle()
    assert report.stored + report.dead + report.resubmitted == 60
    assert (report.resubmitted, report.dead >= 1) == (1, True)
    await world.bring_to_an_end()
    assert world.posts() == 1, "alone, and below fifty one by one"
    assert _states(world)["superseded"] == 1
    assert world.violations() == []


async def test_urls_that_the_service_takes_for_invalid_are_parked_with_the_reason(world: World) -> None:
    await world.submit(*world.urls(60), BAD)
    letters = rows(world.ledger, select(dead_letters))
    assert [(letter.url, letter.error_code) for letter in letters] == [(BAD, "INVALID_URL")]
    _bring_news(world)
    assert world.settle().stored == 60
    assert world.ledger.audit.check() == []


async def test_a_batch_that_is_refused_is_sent_one_by_one(world: World) -> None:
    """Nothing but invalid URLs: the refusal of the whole names none of them."""
    bad = [f"{BAD}{number}" for number in range(60)]
    report = await world.submit(*bad)
    assert (report.accepted, _requests(world, POST), world.posts()) == (60, 1, 60)
    await world.bring_to_an_end()
    letters = rows(world.ledger, select(dead_letters))
    assert {(letter.url, letter.error_code) for letter in letters} == {(url, "INVALID_URL") for url in bad}


async def test_an_item_that_is_missing_is_tried_again_after_every_page_was_read(world: World) -> None:
    world.service.set_faults(item_missing={"url_contains": "/pages/33", "count": 1})
    await world.submit(*world.urls(120))
    _bring_news(world)
    report = world.settle()
    assert (report.stored, report.resubmitted) == (119, 1)
    await world.bring_to_an_end()
    assert world.ledger.progress.of(DAY).stored == 120


async def test_a_page_that_fails_leaves_what_was_read_and_nothing_final(world: World) -> None:
    """250 items behind five pages, and the fourth answers 500."""
    world.patient(pages_at_once=2)
    await world.submit(*world.urls(250))
    _bring_news(world)
    world.service.set_faults(results_500={"page": 4})
    world.patient(drain_quiet=0.0)
    world.settle()
    assert _states(world) == {"stored": 150, "accepted": 100}
    [event] = rows(world.ledger, select(processed_events))
    assert event.processed_at is None
    world.service.clear_faults()
    world.clock.advance(60)
    before = _requests(world, GET)
    assert world.settle().stored == 100
    assert _requests(world, GET) - before == 1 + 2, "nothing that was stored is fetched again"
    assert world.violations() == []


async def test_a_run_that_is_killed_between_pages_is_taken_up_where_it_stopped(world: World) -> None:
    world.patient(pages_at_once=1)
    await world.submit(*world.urls(350))
    _bring_news(world)
    stream = world.in_thread(lambda: _commit_chunks(world, 6))
    assert stream == 6
    assert _states(world) == {"stored": 300, "accepted": 50}
    world.clock.advance(world.policy.settle_lease + 1)
    before = _requests(world, GET)
    assert world.settle().stored == 50
    assert _requests(world, GET) - before == 1 + 1
    assert world.violations() == []


def _commit_chunks(world: World, count: int) -> int:
    """Commit so many chunks, then be gone."""
    outcomes = world.settlement().outcomes()
    done = 0
    for chunk in outcomes:
        world.ledger.outcomes.commit(chunk)
        done += 1
        if done == count:
            break
    return done


async def test_a_batch_that_was_cancelled_half_way_leaves_every_url_in_one_state(world: World) -> None:
    world.service.set_faults(late_job={"url_contains": "/pages/5", "seconds": 3.0})
    await world.submit(*world.urls(60))
    [batch] = _batches(world)
    async with world.client() as client:
        await client.cancel_batch(batch["job_id"])
    _bring_news(world)
    world.clock.advance(4)
    world.settle()
    states = _states(world)
    assert states.get("accepted", 0) == 0
    assert sum(states[state] for state in states if state != "superseded") == 60
    assert world.ledger.audit.check() == []


async def test_a_batch_whose_answer_was_lost_is_found_by_its_urls(world: World) -> None:
    await _lose(world, *world.urls(60))
    assert _states(world) == {"sending": 60}
    world.service.clear_faults()
    async with world.client() as client:  # another program's, of the same size
        await client.submit_batch([world.url(f"pages/{1000 + number}") for number in range(60)])
    world.await_batches()
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again, report.waiting) == (60, 0, 0)
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 60
    assert _requests(world, POST) == 2


async def test_a_batch_of_others_of_the_same_size_is_not_ours(world: World) -> None:
    """The POST never arrived, and another program sent as many URLs in the same minutes."""
    world.plan(*world.urls(60))
    terms = BatchTerms(50, 1000, lambda options: True)
    world.ledger.submissions.claim(DAY, 128, world.policy.send_lease, terms)
    async with world.client() as client:
        await client.submit_batch([world.url(f"pages/{1000 + number}") for number in range(60)])
    world.await_batches()
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again) == (0, 60)


async def test_while_a_batch_that_may_be_ours_still_runs_the_rows_wait(world: World) -> None:
    world.service.set_faults(never_finish=True)
    await _lose(world, *world.urls(60))
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again, report.waiting) == (0, 0, 60)
    [batch] = _batches(world)
    world.service.finish_job(batch["job_id"])
    world.await_batches()
    assert (await world.resolve()).bound == 60


async def test_a_larger_batch_is_not_ours(world: World) -> None:
    world.plan(*world.urls(60))
    terms = BatchTerms(50, 1000, lambda options: True)
    claimed = world.ledger.submissions.claim(DAY, 128, world.policy.send_lease, terms)
    assert len(claimed) == 60
    async with world.client() as client:
        await client.submit_batch(world.urls(61))
    world.await_batches()
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again) == (0, 60)


async def test_a_batch_that_left_out_invalid_urls_is_still_ours(world: World) -> None:
    await _lose(world, *world.urls(60), BAD)
    world.await_batches()
    world.let_grace_pass()
    assert (await world.resolve()).bound == 61
    report = world.settle()
    assert (report.stored, report.dead) == (60, 1)
    assert [letter.error_code for letter in rows(world.ledger, select(dead_letters))] == ["INVALID_URL"]


async def test_a_batch_that_never_arrived_is_planned_again(world: World) -> None:
    world.service.set_faults(post_500_before=True)
    with pytest.raises(ServerError):
        await world.submit(*world.urls(60))
    world.service.clear_faults()
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.planned_again, _states(world)) == (60, {"planned": 60})


async def test_the_sweep_finds_batches_that_ended_unheard_of_and_reports_those_of_others(
    world: World,
) -> None:
    await world.submit(*world.urls(60))
    async with world.client() as client:
        await client.submit_batch([world.url("pages/1000"), world.url("pages/1001")])
    world.await_batches()
    world.clock.advance(world.policy.sweep_after + 1)
    report = await world.sweep()
    assert (report.ended, report.foreign) == (1, 1)
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 60


async def test_the_results_of_a_batch_that_have_expired_are_parked_as_such(world: World) -> None:
    await world.submit(*world.urls(60))
    _bring_news(world)
    world.service.set_faults(expire_results_after=10.0)
    world.clock.advance(60)
    report = world.settle()
    assert (report.stored, report.dead) == (0, 60)
    assert {letter.error_code for letter in rows(world.ledger, select(dead_letters))} == {"expired"}


async def test_a_result_twice_in_a_batch_is_stored_once(world: World) -> None:
    await world.submit(*world.urls(60))
    _bring_news(world)
    chunks: list[list[JobOutcome]] = world.in_thread(lambda: [list(c) for c in _committed(world)])
    again = CommitReport()
    for chunk in chunks:
        again += world.ledger.outcomes.commit(chunk)
    assert (again.stored, again.dropped > 0) == (0, True)
    assert len(rows(world.ledger, select(results.c.job_id))) == 60


def _committed(world: World) -> list[list[JobOutcome]]:
    chunks = []
    for chunk in world.settlement().outcomes():
        world.ledger.outcomes.commit(chunk)
        chunks.append(list(chunk))
    return chunks
