"""Page limits of an account hold whatever claims at the same time, and cost no claim the count of a whole month."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from scraper_pipeline.ledger import Allowance, BatchTerms, Kind, Ledger, PageLimit, Scope, Target
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    LEASE,
    NEXT_DAY,
    PERMANENT,
    HandClock,
    accept,
    claim,
    execute,
    finish,
    plan,
    state_of,
    target,
)

URLS = [f"https://site.test/{number}" for number in range(200)]
ANY_BATCH = BatchTerms(1, 1000, lambda options: True)


def _limit(ledger: Ledger, pages: int, hours: float = 24.0, name: str = "a day") -> PageLimit:
    return PageLimit(name, ledger.clock() - timedelta(hours=hours), pages)


def _crawl(number: int, limit: int) -> Target:
    return Target(f"{number:032d}", f"https://site.test/crawl/{number}", {"limit": limit}, is_crawl=True)


def _claim_until_nothing_is_left(ledger: Ledger, day: str, allowance: Allowance) -> int:
    claimed = 0
    while some := ledger.submissions.claim(day, 7, LEASE, None, allowance):
        claimed += len(some)
    return claimed


def _at_once(*tasks: Callable[[], int]) -> list[int]:
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], int]) -> int:
        start.wait(10)
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return [done.result(60) for done in [pool.submit(run, task) for task in tasks]]


@pytest.mark.parametrize("names", [("a day",), ("a month",), ("a day", "a month")])
def test_runs_that_claim_at_once_do_not_exceed_a_limit_together(
    ledger: Ledger, names: tuple[str, ...]
) -> None:
    days = [f"2026-03-{number:02d}" for number in range(1, 5)]
    for number, day in enumerate(days):
        plan(ledger, *(f"{url}/{number}" for url in URLS[:60]), day=day)
    limits = [_limit(ledger, 100, 24.0 if name == "a day" else 720.0, name) for name in names]
    tasks = [lambda day=day: _claim_until_nothing_is_left(ledger, day, Allowance(limits)) for day in days]
    assert sum(_at_once(*tasks)) == 100
    assert ledger.submissions.pages_committed_since(limits[0].since) == 100


def test_runs_of_several_feeds_of_an_account_keep_to_one_limit(ledger: Ledger) -> None:
    other = Ledger(ledger.engine, Scope(feed="other"), ledger.clock, ledger.resubmission)
    plan(ledger, *URLS[:60])
    plan(other, *URLS[60:120])
    limit = [_limit(ledger, 70)]
    tasks = [
        lambda one=one: _claim_until_nothing_is_left(one, DAY, Allowance(limit)) for one in (ledger, other)
    ]
    assert sum(_at_once(*tasks)) == 70


def test_batches_and_crawls_that_are_claimed_at_once_keep_to_one_limit(ledger: Ledger) -> None:
    plan(ledger, *URLS[:60])
    ledger.submissions.plan(NEXT_DAY, [_crawl(number, 30) for number in range(5)])
    limit = _limit(ledger, 100)

    def claim_batch() -> int:
        return len(ledger.submissions.claim(DAY, 0, LEASE, ANY_BATCH, Allowance([limit])))

    def claim_crawls() -> int:
        allowance, crawls = Allowance([limit]), 0
        while some := ledger.submissions.claim_crawl(NEXT_DAY, None, LEASE, allowance):
            crawls += len(some)
        return crawls

    pages, crawls = _at_once(claim_batch, claim_crawls)
    assert (pages, crawls) in {(60, 1), (40, 2), (10, 3)}
    assert ledger.submissions.pages_committed_since(limit.since) == pages + 30 * crawls


def test_the_strictest_of_several_limits_decides(ledger: Ledger) -> None:
    plan(ledger, *URLS[:30])
    allowance = Allowance([_limit(ledger, 20), _limit(ledger, 12, 720.0, "a month")])
    assert _claim_until_nothing_is_left(ledger, DAY, allowance) == 12
    assert allowance.left == {"a day": 8, "a month": 0}


def test_what_was_sent_before_a_limits_time_does_not_count(ledger: Ledger, clock: HandClock) -> None:
    accept(ledger, *URLS[:10])
    clock.advance(3600)
    plan(ledger, *URLS[10:30], day=NEXT_DAY)
    assert _claim_until_nothing_is_left(ledger, NEXT_DAY, Allowance([_limit(ledger, 15, 0.5)])) == 15


def test_a_limit_that_is_used_up_lets_nothing_out_in_any_form(ledger: Ledger) -> None:
    accept(ledger, *URLS[:5])
    plan(ledger, *URLS[5:10])
    ledger.submissions.plan(DAY, [_crawl(1, 1)])
    used_up = Allowance([_limit(ledger, 5)])
    assert ledger.submissions.claim(DAY, 10, LEASE, None, used_up) == []
    assert ledger.submissions.claim(DAY, 10, LEASE, ANY_BATCH, used_up) == []
    assert ledger.submissions.claim_crawl(DAY, None, LEASE, used_up) == []
    assert ledger.submissions.has_due(DAY)


def test_attempts_that_failed_leave_room_for_others(ledger: Ledger) -> None:
    jobs = accept(ledger, *URLS[:5])
    plan(ledger, *URLS[5:10], day=NEXT_DAY)
    finish(ledger, dict.fromkeys(jobs[:3], PERMANENT))
    assert _claim_until_nothing_is_left(ledger, NEXT_DAY, Allowance([_limit(ledger, 5)])) == 3


def test_a_run_counts_what_lies_a_minute_back_only_once(ledger: Ledger, clock: HandClock) -> None:
    accept(ledger, *URLS[:50])
    clock.advance(3600)
    plan(ledger, *URLS[50:100], day=NEXT_DAY)
    allowance = Allowance([_limit(ledger, 80)])
    assert len(ledger.submissions.claim(NEXT_DAY, 5, LEASE, None, allowance)) == 5
    execute(ledger, "DELETE FROM submissions WHERE partition_key = :day", day=DAY)
    for advanced in (1, 30, 200, 20):
        clock.advance(advanced)
        assert len(ledger.submissions.claim(NEXT_DAY, 5, LEASE, None, allowance)) == 5
    assert allowance.left == {"a day": 10}, "and what it has claimed itself since is counted, too"
    assert _claim_until_nothing_is_left(ledger, NEXT_DAY, allowance) == 5


def test_what_others_send_while_a_run_goes_on_is_counted(ledger: Ledger, clock: HandClock) -> None:
    plan(ledger, *URLS[:50])
    allowance = Allowance([_limit(ledger, 30)])
    ledger.submissions.claim(DAY, 5, LEASE, None, allowance)
    for number in range(1, 4):
        clock.advance(50)
        accept(ledger, *URLS[100 + 5 * number : 105 + 5 * number], day=NEXT_DAY)
    assert _claim_until_nothing_is_left(ledger, DAY, allowance) == 10


def test_single_jobs_that_may_not_go_out_are_passed_over_by_batches(ledger: Ledger) -> None:
    ledger.submissions.plan(DAY, [target(URLS[number], {"timeout": number}) for number in range(3)])
    ledger.submissions.plan(DAY, [target(url, {"render_js": True}) for url in URLS[10:15]])
    plan(ledger, *URLS[20:40])
    terms = BatchTerms(10, 1000, lambda options: "timeout" not in options)
    batch = ledger.submissions.claim(DAY, 0, LEASE, terms)
    assert sorted(one.url for one in batch) == sorted(URLS[20:40])
    assert {one.kind for one in batch} == {Kind.BATCH}
    assert ledger.submissions.claim(DAY, 0, LEASE, terms) == []
    assert len(ledger.submissions.claim(DAY, 128, LEASE, terms)) == 1


def test_rows_of_a_batch_that_was_refused_go_out_one_by_one_and_in_no_batch_again(ledger: Ledger) -> None:
    plan(ledger, *URLS[:5])
    [request_id] = {one.request_id for one in ledger.submissions.claim(DAY, 0, LEASE, ANY_BATCH)}
    assert ledger.submissions.set_apart([request_id, "another"]) == 5
    assert state_of(ledger, URLS[0]) == "planned"
    assert ledger.submissions.claim(DAY, 0, LEASE, ANY_BATCH) == []
    alone = ledger.submissions.claim(DAY, 10, LEASE, ANY_BATCH)
    assert len({one.request_id for one in alone}) == 5
    assert ledger.submissions.set_apart([request_id]) == 0, "a late word about the batch changes nothing"
    assert claim(ledger) == []


def test_planned_targets_are_grouped_as_requests_are_made_of_them(ledger: Ledger) -> None:
    plan(ledger, *URLS[:4])
    ledger.submissions.plan(DAY, [target(URLS[10], {"render_js": True}), _crawl(1, 20)])
    groups = {
        (one.kind, str(dict(one.options))): one.targets for one in ledger.submissions.planned_groups(DAY)
    }
    assert groups == {
        (Kind.EXTRACT, "{}"): 4,
        (Kind.EXTRACT, "{'render_js': True}"): 1,
        (Kind.CRAWL, "{'limit': 20}"): 1,
    }
    assert ledger.submissions.pages_planned(DAY) == 25
