"""A ledger over several accounts reads what each of them has, by index, and leaves writing to each."""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, text

from scraper_pipeline.ledger import (
    Allowance,
    Channel,
    Delivery,
    Failure,
    Ledger,
    LetterFilter,
    ListTerms,
    PageLimit,
    PlanReport,
    QuarantinedBody,
    ServiceJob,
    Target,
)
from scraper_pipeline.ledger.schema import processed_events, quarantine, submissions
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    LEASE,
    NEXT_DAY,
    HandClock,
    accept,
    bring_news,
    claim_jobs,
    execute,
    finish,
    page,
    plan,
    record,
    rows,
    settle,
    target,
)

A, B = "https://site.test/a", "https://site.test/b"
PARKED = Failure("HTTP_404", "It is gone.", retryable=False)


@pytest.fixture
def research(ledger: Ledger) -> Ledger:
    return ledger.of_account("research")


@pytest.fixture
def both(ledger: Ledger) -> Ledger:
    return ledger.of_account("default", "research")


def test_the_same_target_of_two_accounts_is_two_and_figures_are_over_both(
    ledger: Ledger, research: Ledger, both: Ledger
) -> None:
    [mine] = accept(ledger, A)
    [theirs, parked] = accept(research, A, B, prefix="research ")
    finish(ledger, {mine: page()})
    assert (ledger.progress.of(DAY).is_settled, both.progress.of(DAY).is_settled) == (True, False)
    assert both.progress.has_open_targets()
    before = both.progress.revision(DAY)
    finish(research, {theirs: page("# Theirs"), parked: PARKED})

    progress = both.progress.of(DAY)
    assert (progress.targets, progress.stored, progress.dead, progress.is_settled) == (3, 2, 1, True)
    [newest] = both.progress.revisions(5)
    assert newest.revision == both.progress.revision(DAY) > before
    assert newest.revision == ledger.progress.revision(DAY) + research.progress.revision(DAY)
    assert both.progress.figures(DAY).pages == 2
    assert len(both.progress.read_results([DAY], ["url"])) == 2
    assert {row["account"] for row in both.progress.read_results([DAY], ["account"])} == {
        "default",
        "research",
    }
    assert both.quality.days_before("2026-12-31", 5) == [DAY]
    with both.pages.of(DAY) as pages:
        assert [(key.account, key.target_id == target(A).target_id) for key in pages.keys()] == [  # noqa: SIM118
            ("default", True),
            ("research", True),
        ]
    [letter] = both.letters.find(LetterFilter())
    assert letter.account == "research"
    assert both.letters.lineage(letter.letter_id) == research.letters.lineage(letter.letter_id)
    assert ledger.letters.lineage(letter.letter_id) is None
    assert not both.progress.has_open_targets()
    assert ledger.progress.accounts() == ["default", "research"]
    assert both.audit.check() == both.audit.check_complete(DAY) == both.audit.check_stored_once(DAY) == []
    books = [ServiceJob(job, url, "completed", 1) for job, url in ((mine, A), (theirs, A))]
    assert both.audit.check_against([*books, ServiceJob(parked, B, "failed", 0)]) == [], "each has paid once"
    execute(research, "DELETE FROM dead_letters")
    assert [violation.rule for violation in both.audit.check()] == ["dead_has_letter"]
    assert ledger.audit.check() == []


def test_nothing_is_written_under_several_accounts(both: Ledger) -> None:
    for write in (
        lambda: plan(both, A),
        lambda: both.leases.take("settle", DAY, "me", 60),
        lambda: both.news.record(["a job"], Channel.POLL),
    ):
        with pytest.raises(ValueError, match="write to that of one of them"):
            write()


def test_page_limits_and_claims_are_each_accounts_own(
    ledger: Ledger, research: Ledger, both: Ledger, clock: HandClock
) -> None:
    plan(ledger, A, B)
    plan(research, A, B)
    limit = PageLimit("a day", clock() - timedelta(hours=1), 1)
    assert len(ledger.submissions.claim(DAY, 10, LEASE, allowance=Allowance([limit]))) == 1
    claimed = research.submissions.claim(DAY, 10, LEASE)
    assert len(claimed) == 2, "also what the other account is sending"
    assert ledger.submissions.pages_left([limit]) == {"a day": 0}
    for number, one in enumerate(claimed):
        assert record(research, one, f"job {number}") == 1
    assert both.submissions.pages_committed_since(limit.since) == 3
    spent = both.costs.spent(limit.since, clock() + timedelta(hours=1), "account")
    assert {(one.key, one.attempts) for one in spent} == {("default", 1), ("research", 2)}


@pytest.mark.parametrize("when", ["before its job is known", "after"])
def test_news_left_under_another_account_is_found_by_the_one_that_its_job_is_bound_to(
    ledger: Ledger, research: Ledger, when: str
) -> None:
    job_id = f"job of {A}"
    if when == "after":
        accept(research, A)
    ledger.inbox.commit([Delivery(job_id, account="default"), Delivery("a stranger's")])
    if when != "after":
        accept(research, A)
    assert claim_jobs(research) == []

    assert research.news.take_over() == 1
    assert research.news.take_over() == ledger.news.take_over() == 0
    [job] = claim_jobs(research)
    assert (job.job_id, job.account) == (job_id, "research")


@pytest.mark.parametrize("ask", [False, True], ids=["poll", "request"])
def test_whoever_asked_with_the_accounts_key_knows_better_than_a_webhook(
    ledger: Ledger, research: Ledger, ask: bool
) -> None:
    [job_id] = accept(research, A)
    ledger.inbox.commit([Delivery(job_id)])
    if ask:
        research.news.request_settlement([job_id])
    else:
        bring_news(research, job_id)
    assert settle(research, page()).stored == 1
    [row] = rows(ledger, select(processed_events))
    assert row.webhook_at is not None, "when it was heard of first stays known"


def test_a_delivery_stands_under_the_account_of_its_secret(ledger: Ledger) -> None:
    ledger.inbox.commit(
        [Delivery("one", account="research"), Delivery("two")],
        [QuarantinedBody("not JSON", b"", account="research")],
    )
    found = {row.job_id: row.account for row in rows(ledger, select(processed_events))}
    assert found == {"one": "research", "two": "default"}
    assert [row.account for row in rows(ledger, select(quarantine))] == ["research"]


def test_replays_are_of_an_accounts_own_jobs(ledger: Ledger, research: Ledger) -> None:
    [mine], [theirs] = accept(ledger, A), accept(research, A, prefix="research ")
    assert ledger.webhooks.replay([mine, theirs]).not_ours == 1
    report = research.webhooks.replay([mine, theirs])
    assert (report.taken_up, report.not_ours) == (1, 1)
    assert [job.job_id for job in claim_jobs(research)] == [theirs]


def test_a_list_that_has_moved_to_another_account_is_unfinished_in_none(
    ledger: Ledger, research: Ledger, both: Ledger
) -> None:
    ledger.lists.begin(DAY, "prices")
    ledger.lists.leave(DAY, "prices")
    research.submissions.plan(DAY, [target(A)], ListTerms("prices"))
    assert both.lists.unfinished(DAY) == []
    assert [one.targets for one in both.lists.planned(DAY)] == [1]


def test_what_a_day_has_of_a_list_stays_with_its_account_when_the_list_moves(
    ledger: Ledger, research: Ledger, both: Ledger, clock: HandClock
) -> None:
    prices, bounded = ListTerms("prices"), ListTerms("prices", pages_per_day=2)
    ledger.submissions.plan(DAY, [target(A)], prices)
    ids = [target(A).target_id, target(B).target_id]
    assert research.submissions.planned_targets(DAY, ids, "prices") == {ids[0]}
    assert research.submissions.plan(DAY, [target(A), target(B)], bounded) == PlanReport(1, 1)
    assert research.submissions.plan(DAY, [target(A), target(B)], bounded) == PlanReport(0, 2)
    assert ledger.submissions.plan(DAY, [target(A), target(B)], prices) == PlanReport(0, 2), "and back again"
    assert both.progress.of(DAY).targets == 2
    clock.advance(60)
    more = [target(A), target(B), target("https://site.test/c")]
    assert research.submissions.plan(DAY, more, bounded) == PlanReport(0, 2, beyond_budget=1)
    assert research.lists.pages_left(DAY, bounded) == 0, "the budget is the list's, whoever pays"
    [shown] = both.lists.planned(DAY)
    assert (shown.targets, shown.pages, shown.beyond_budget) == (3, 2, 1), "as it was planned last"
    month = ListTerms("prices", pages_per_month=3)
    assert research.lists.pages_left(NEXT_DAY, month) == 1


def test_a_list_that_moves_while_it_is_planned_is_planned_by_one_account_or_the_other(
    ledger: Ledger, research: Ledger
) -> None:
    prices, pages = ListTerms("prices"), [target(f"https://site.test/{number}") for number in range(2000)]
    go_on = threading.Event()

    def read_slowly() -> Iterator[Target]:
        yield from pages[:1500]
        assert go_on.wait(30)
        yield from pages[1500:]

    with ThreadPoolExecutor(2) as threads:
        slow = threads.submit(ledger.submissions.plan, DAY, read_slowly(), prices)
        quick = threads.submit(research.submissions.plan, DAY, pages, prices)
        there = quick.result(30)
        go_on.set()
        reports = [slow.result(30), there]
    assert sum(report.planned for report in reports) == len(pages)
    planned = rows(ledger, select(submissions.c.target_id))
    assert len({row.target_id for row in planned}) == len(planned) == len(pages)


def test_a_list_that_has_moved_is_whole_for_its_account_on_another_day_and_other_lists_are_their_own(
    ledger: Ledger, research: Ledger
) -> None:
    ledger.submissions.plan(DAY, [target(A), target(B)], ListTerms("prices"))
    assert research.submissions.plan(NEXT_DAY, [target(A)], ListTerms("prices")).planned == 1
    assert research.submissions.plan(DAY, [target(A)], ListTerms("papers")).planned == 1
    assert research.submissions.planned_targets(DAY, [target(B).target_id], "papers") == set()


def test_sweeps_are_told_together(ledger: Ledger, research: Ledger, both: Ledger, clock: HandClock) -> None:
    assert both.sweeps.last() is None
    ledger.sweeps.end(ledger.sweeps.begin(), {"ended": 2, "is_whole": 1})
    first = clock()
    clock.advance(60)
    research.sweeps.end(research.sweeps.begin(), {"ended": 3, "is_whole": 0})
    assert both.sweeps.last() == (first, {"ended": 5, "is_whole": 0})


@contextmanager
def _recorded(engine: Engine) -> Iterator[list[tuple[str, Any]]]:
    seen: list[tuple[str, Any]] = []

    def look(_c: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if statement.lstrip().startswith(("SELECT", "WITH")):
            seen.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", look)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", look)


def test_what_reads_over_several_accounts_does_so_by_the_indexes_that_lead_with_the_account(
    ledger: Ledger, research: Ledger, both: Ledger, clock: HandClock
) -> None:
    for one, prefix in ((ledger, "mine "), (research, "theirs ")):
        [stored, parked] = accept(one, A, B, prefix=prefix)
        finish(one, {stored: page(), parked: PARKED})
    with _recorded(ledger.engine) as seen:
        both.progress.of(DAY)
        both.progress.resubmissions(DAY)
        both.progress.figures(DAY)
        both.progress.read_results([DAY], ["url"])
        both.progress.letters_by_code(DAY)
        both.progress.results_preview(DAY)
        both.progress.has_open_targets()
        both.progress.oldest_open_seconds()
        both.sweeps.offenders(5)
        both.submissions.pages_committed_since(clock() - timedelta(hours=1))
        both.costs.spent(clock() - timedelta(hours=1), clock())
        both.quality.content(DAY)
        both.letters.reasons(DAY)
        both.progress.accounts()
        both.audit.check_complete(DAY)
        with both.pages.of(DAY) as pages:
            list(pages.keys())
    assert len(seen) > 20
    is_sqlite = ledger.engine.dialect.name == "sqlite"
    wide = r"(?m)^.*(SCAN (submissions|results)$|USING .*\(account=\?( AND feed=\?)?\)$)"
    whole = wide if is_sqlite else r"Seq Scan on (submissions|results)"
    with ledger.engine.connect() as connection:
        if not is_sqlite:
            connection.execute(text("SET enable_seqscan = off"))
        for statement, parameters in seen:
            explain = "EXPLAIN QUERY PLAN " if is_sqlite else "EXPLAIN "
            plan_of = connection.exec_driver_sql(explain + statement, parameters).all()
            told = "\n".join(" ".join(map(str, line)) for line in plan_of)
            assert not re.search(whole, told), f"{statement}\n{told}"
