"""Several threads do everything at once on one database: nothing is doubled, nothing is lost."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select

from scraper_pipeline.ledger import AcceptedSubmission, Channel, ClaimedSubmission, Ledger, ResubmissionPolicy
from scraper_pipeline.ledger.schema import dead_letters, jobs, results
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    NEXT_DAY,
    PERMANENT,
    RETRYABLE,
    attempts,
    claim_jobs,
    outcome,
    page,
    rows,
    target,
)

WORKERS = 4
URLS = [f"https://site.test/{number}" for number in range(60)]


def _at_once(*tasks: Callable[[], object]) -> None:
    """Run the tasks in threads that start together; an error in any of them is raised."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], object]) -> object:
        start.wait(10)
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        for done in [pool.submit(run, task) for task in tasks]:
            done.result(60)


@pytest.fixture
def ledger(fresh_url: str):
    with Ledger.open(fresh_url, resubmission=ResubmissionPolicy(3, first_delay_seconds=0)) as ledger:
        yield ledger


def test_a_list_that_several_runs_plan_at_once_is_planned_once(ledger: Ledger) -> None:
    targets = [target(url) for url in URLS]
    planned: list[int] = []

    def plan_from(start: int) -> None:
        order = targets[start:] + targets[:start]
        planned.append(ledger.submissions.plan(DAY, order).planned)

    _at_once(*(lambda start=15 * worker: plan_from(start) for worker in range(WORKERS)))
    assert sum(planned) == len(URLS) == ledger.progress.of(DAY).planned


def test_rows_that_several_runs_claim_at_once_go_to_one_of_them(ledger: Ledger) -> None:
    ledger.submissions.plan(DAY, [target(url) for url in URLS])
    claimed: list[ClaimedSubmission] = []

    def claim_all() -> None:
        while some := ledger.submissions.claim(DAY, 7, 60):
            claimed.extend(some)

    _at_once(*[claim_all] * WORKERS)
    assert sorted(one.url for one in claimed) == sorted(URLS)
    assert len({one.request_id for one in claimed}) == len(URLS)


def test_a_url_that_runs_of_several_days_claim_at_once_is_sent_by_one_of_them(ledger: Ledger) -> None:
    days = [f"2026-03-{number:02d}" for number in range(1, WORKERS + 1)]
    for day in days:
        shift = 13 * days.index(day)
        ledger.submissions.plan(day, [target(url, {"day": day}) for url in URLS[shift:] + URLS[:shift]])
    claimed: list[ClaimedSubmission] = []
    _at_once(*(lambda day=day: claimed.extend(ledger.submissions.claim(day, 100, 60)) for day in days))
    assert Counter(one.url for one in claimed).most_common(1)[0][1] == 1
    rest = [one for day in days for one in ledger.submissions.claim(day, 100, 60)]
    assert sorted(one.url for one in [*claimed, *rest]) == sorted(URLS)
    assert ledger.audit.check() == []


def test_jobs_that_several_runs_claim_at_once_are_settled_by_one_of_them(ledger: Ledger) -> None:
    ledger.submissions.plan(DAY, [target(url) for url in URLS])
    claimed = ledger.submissions.claim(DAY, 100, 60)
    answers = [AcceptedSubmission(one.request_id, f"job of {one.url}") for one in claimed]
    ledger.submissions.record_accepted(answers, ledger.clock())
    ledger.news.record([one.job_id for one in answers], Channel.POLL)
    settled: list[str] = []
    stored: list[int] = []

    def settle_all() -> None:
        while some := claim_jobs(ledger, limit=7):
            settled.extend(one.job_id for one in some)
            stored.append(ledger.outcomes.commit([outcome(one, page()) for one in some]).stored)

    _at_once(*[settle_all] * WORKERS)
    assert sorted(settled) == sorted(one.job_id for one in answers)
    assert sum(stored) == len(URLS)


def test_an_answer_and_a_sweep_that_come_at_once_bind_a_row_once(ledger: Ledger) -> None:
    ledger.submissions.plan(DAY, [target(url) for url in URLS[:20]])
    claimed = ledger.submissions.claim(DAY, 100, -10.0)
    bound: list[int] = []

    def answer() -> None:
        for one in claimed:
            job = AcceptedSubmission(one.request_id, f"answered {one.url}")
            bound.append(ledger.submissions.record_accepted([job], ledger.clock()))

    def sweep() -> None:
        for one in claimed:
            found = "none" if int(one.url.rsplit("/", 1)[1]) % 2 else f"found {one.url}"
            bound.append(ledger.submissions.resolve(one.request_id, found, ledger.clock(), 5.0))

    _at_once(answer, sweep)
    assert sum(bound) == len(claimed)
    progress = ledger.progress.of(DAY)
    assert progress.accepted + progress.planned == 20
    assert len(rows(ledger, select(jobs))) == progress.accepted
    assert ledger.audit.check() == []


def test_everything_at_once_leaves_each_target_in_one_state_and_stores_nothing_twice(ledger: Ledger) -> None:
    """Four runs plan, submit, poll and settle two days with the same URLs; some pages fail at first, some for good."""
    posts: Counter[str] = Counter()
    made: dict[str, str] = {}
    lock = threading.Lock()

    def post(one: ClaimedSubmission) -> AcceptedSubmission:
        with lock:
            posts[one.url] += 1
            job_id = f"job {sum(posts.values())}"
            made[job_id] = one.url
        return AcceptedSubmission(one.request_id, job_id)

    def result_of(job_id: str):
        number = int(made[job_id].rsplit("/", 1)[1])
        if number % 10 == 3:
            return PERMANENT
        with lock:
            is_first = job_id == min(
                (j for j, url in made.items() if url == made[job_id]), key=lambda j: int(j[4:])
            )
        return RETRYABLE if number % 10 == 6 and is_first else page(job_id)

    def run(day: str) -> None:
        ledger.submissions.plan(day, [target(url) for url in URLS])
        end = time.monotonic() + 50
        while time.monotonic() < end:
            for one in ledger.news.take_due_jobs(20):
                ledger.news.record([one.job_id], Channel.POLL)
                ledger.news.schedule_looks({one.job_id: None}, {})
            if claimed := ledger.submissions.claim(day, 9, 60):
                ledger.submissions.record_accepted([post(one) for one in claimed], ledger.clock())
            settling = claim_jobs(ledger, day, limit=9)
            ledger.outcomes.commit([outcome(one, result_of(one.job_id)) for one in settling])
            ledger.news.record([one.job_id for one in settling], Channel.WEBHOOK)
            if not claimed and not settling:
                if ledger.progress.of(day).is_settled:
                    return
                time.sleep(0.01)
        raise AssertionError(f"not settled: {ledger.progress.of(day)}")

    _at_once(*(lambda day=day: run(day) for day in (DAY, NEXT_DAY) * 2))
    assert ledger.audit.check() == []
    tried = sum(len(attempts(ledger, url, day)) for url in URLS[:10] for day in (DAY, NEXT_DAY))
    assert sum(posts[url] for url in URLS[:10]) == tried
    with ledger.engine.connect() as connection:
        stored = connection.scalar(select(func.count()).select_from(results))
        letters = connection.scalar(select(func.count()).select_from(dead_letters))
    assert (stored, letters) == (2 * 54, 2 * 6)
    assert sum(posts.values()) == len(rows(ledger, select(jobs))) == 2 * 60 + 6
