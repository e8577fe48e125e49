"""What is kept of each list: budgets that hold, plans that were broken off, and lengths to compare."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select

from scraper_pipeline.ledger import Ledger, ListTerms, PlannedList, PlanReport, Target, UnfinishedList
from scraper_pipeline.ledger.schema import submissions
from scraper_pipeline_tests.integration.ledger.driving import DAY, NEXT_DAY, rows, target

NEXT_MONTH = "2026-04-01"
PAGES = [target(f"https://site.test/{number}") for number in range(20)]
CRAWL = Target("crawl", "https://site.test/", {"limit": 8, "depth": 2}, is_crawl=True)


def urls(ledger: Ledger, day: str = DAY) -> list[str]:
    return [
        row.url for row in rows(ledger, select(submissions.c.url).where(submissions.c.partition_key == day))
    ]


def test_a_budget_bounds_the_plan_of_a_day_however_often_it_is_planned(ledger: Ledger) -> None:
    terms = ListTerms("shops", pages_per_day=3)
    assert ledger.submissions.plan(DAY, PAGES[:5], terms) == PlanReport(3, 0, beyond_budget=2)
    assert ledger.submissions.plan(DAY, PAGES[:6], terms) == PlanReport(0, 3, beyond_budget=3)
    assert sorted(urls(ledger)) == [one.url for one in PAGES[:3]]
    assert ledger.lists.pages_left(DAY, terms) == 0
    assert ledger.submissions.plan(NEXT_DAY, PAGES[:2], terms).planned == 2
    raised = ListTerms("shops", pages_per_day=5)
    assert ledger.submissions.plan(DAY, PAGES[:6], raised) == PlanReport(2, 3, beyond_budget=1)
    assert ledger.submissions.plan(DAY, PAGES[:6], ListTerms("shops")) == PlanReport(1, 5)


def test_a_budget_of_a_month_counts_the_plans_of_its_days(ledger: Ledger) -> None:
    terms = ListTerms("shops", pages_per_day=3, pages_per_month=4)
    assert ledger.submissions.plan(DAY, PAGES, terms).planned == 3
    assert ledger.lists.pages_left(NEXT_DAY, terms) == 1
    assert ledger.submissions.plan(NEXT_DAY, PAGES, terms).planned == 1
    assert ledger.submissions.plan(NEXT_MONTH, PAGES, terms).planned == 3


def test_a_crawl_counts_with_its_limit_and_does_not_keep_pages_from_what_it_leaves(ledger: Ledger) -> None:
    terms = ListTerms("shops", pages_per_day=9)
    assert ledger.submissions.plan(DAY, [*PAGES[:2], CRAWL, *PAGES[2:9]], terms) == PlanReport(9, 0, 1)
    assert ledger.submissions.plan(NEXT_DAY, [CRAWL, *PAGES[:2]], terms) == PlanReport(2, 0, 1)


def test_a_target_of_two_lists_is_planned_and_counted_for_the_first(ledger: Ledger) -> None:
    ledger.submissions.plan(DAY, PAGES[:4], ListTerms("first"))
    second = ListTerms("second", pages_per_day=2)
    assert ledger.submissions.plan(DAY, PAGES[:6], second) == PlanReport(2, 4)
    first, other = ledger.lists.planned(DAY)
    assert (first.pages, other.pages, other.targets) == (4, 2, 6)


def test_runs_that_plan_a_list_at_once_keep_to_its_budget_together(ledger: Ledger) -> None:
    terms = ListTerms("shops", pages_per_day=7, pages_per_month=12)

    def plan(number: int) -> None:
        ledger.submissions.plan((DAY, NEXT_DAY)[number % 2], PAGES[5 * (number // 2) :], terms)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(plan, range(4)))
    counted = rows(
        ledger,
        select(func.count().label("rows")).group_by(submissions.c.partition_key).select_from(submissions),
    )
    assert sum(row.rows for row in counted) == 12
    assert all(row.rows <= 7 for row in counted)


def test_a_plan_that_was_broken_off_stays_unfinished_until_it_is_made_whole(ledger: Ledger) -> None:
    def breaks() -> Iterator[Target]:
        yield from PAGES * 60
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.submissions.plan(DAY, breaks(), ListTerms("shops", pages_per_day=5))
    ledger.submissions.plan(DAY, PAGES, ListTerms("rest"))
    assert ledger.lists.unfinished(DAY) == [UnfinishedList("shops", has_failed=False)]
    assert [one.name for one in ledger.lists.planned(DAY)] == ["rest"]
    ledger.lists.fail(DAY, "shops")
    ledger.lists.fail(DAY, "rest")
    assert ledger.lists.unfinished(DAY) == [UnfinishedList("shops", has_failed=True)]
    ledger.submissions.plan(DAY, PAGES, ListTerms("shops", pages_per_day=5))
    assert ledger.lists.unfinished(DAY) == ledger.lists.unfinished(NEXT_DAY) == []


def test_a_lists_length_stands_beside_that_of_the_last_day_that_had_it(ledger: Ledger) -> None:
    shops = ListTerms("shops", pages_per_day=4)
    ledger.submissions.plan("2026-02-20", PAGES, shops)
    ledger.submissions.plan(DAY, PAGES[:10], shops)
    ledger.submissions.plan(DAY, [], ListTerms("rest"))
    assert ledger.lists.planned(DAY) == [
        PlannedList("rest", targets=0, pages=0, beyond_budget=0),
        PlannedList("shops", 10, 4, 6, day_before="2026-02-20", targets_before=20),
    ]
