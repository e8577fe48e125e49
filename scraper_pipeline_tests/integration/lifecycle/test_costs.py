"""The ledger's pages are held against the service's own statistics, and what differs is explained where it can be."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from scraper_pipeline.ledger import Ledger, Outcome, Uncounted
from scraper_pipeline.lifecycle import Comparison, LifecyclePolicy, compare_costs, forecast_month, span_of
from scraper_pipeline_tests.integration.ledger.driving import HandClock, accept
from scraper_pipeline_tests.integration.lifecycle.world import World

# Every statement is tested on both databases with the ledger.
on_sqlite = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)


async def _compare(world: World) -> Comparison:
    now = world.ledger.clock()
    async with world.client() as client:
        return await compare_costs(world.ledger, client, now - timedelta(hours=1), now + timedelta(minutes=1))


@on_sqlite
async def test_both_agree_on_what_was_paid_alone_in_a_batch_and_by_a_crawl(world: World) -> None:
    await world.submit(*world.urls(2), world.url("broken/1"))
    world.patient(submission_mode="batch", smallest_batch=2)
    await world.submit(world.url("pages/8"), world.url("pages/9"), day="2026-03-02")
    world.await_batches()
    world.settle("2026-03-01", "2026-03-02")
    compared = await _compare(world)
    assert (compared.paid, compared.charged, compared.unexplained) == (4, 4, 0)
    assert sum(compared.charged_by_day.values()) == 4


@on_sqlite
async def test_what_the_ledger_does_not_know_is_told_as_unexplained(world: World) -> None:
    await world.submit(*world.urls(1))
    world.settle()
    async with world.client() as client:
        await client.extract(world.url("pages/2"))
    await world.post(world.url("pages/3"))
    world.await_ends()
    compared = await _compare(world)
    assert (compared.paid, compared.charged, compared.difference, compared.unexplained) == (1, 3, 2, 2)
    world.clock.advance(world.policy.sweep_after + 1)
    await world.sweep()
    compared = await _compare(world)
    assert (compared.uncounted.other_programs, compared.unexplained) == (2, 0), "the sweep has listed both"


@on_sqlite
async def test_pages_that_were_extracted_and_not_settled_yet_are_explained(world: World) -> None:
    await world.submit(*world.urls(3))
    world.await_ends()
    compared = await _compare(world)
    assert (compared.paid, compared.charged, compared.unexplained) == (0, 3, 0)


@on_sqlite
async def test_a_service_without_statistics_is_said_to_have_none(world: World) -> None:
    await world.submit(*world.urls(1))
    world.settle()
    world.service.set_faults(unauthorized={"on": "statistics"})
    compared = await _compare(world)
    assert (compared.paid, compared.charged, compared.difference) == (1, None, None)
    assert "401" in (compared.untold_because or "")
    assert compared.is_explained
    now = world.ledger.clock()
    without_key = await compare_costs(world.ledger, None, now - timedelta(hours=1), now)
    assert "GEONODE_SCRAPER_API_KEY" in (without_key.untold_because or "")


@pytest.mark.parametrize(
    ("paid", "charged", "uncounted", "unexplained", "is_explained"),
    [
        (1000, 1000, Uncounted(), 0, True),
        (1000, 1050, Uncounted(), 50, True),
        (1000, 1051, Uncounted(), 51, False),
        (1000, 1051, Uncounted(in_flight=1), 50, True),
        (10, 30, Uncounted(), 20, True),
        (10, 31, Uncounted(), 21, False),
        (10, 31, Uncounted(other_programs_bulk=1), 0, True),
        (1000, 949, Uncounted(in_flight=100), -51, False),
    ],
)
def test_a_difference_beyond_what_explains_it_and_a_tolerance_is_not_explained(
    paid: int, charged: int, uncounted: Uncounted, unexplained: int, is_explained: bool
) -> None:
    compared = Comparison(paid, uncounted, charged)
    assert (compared.unexplained, compared.is_explained) == (unexplained, is_explained)


def test_days_begin_and_end_where_the_zone_says() -> None:
    start, end = span_of(date(2026, 3, 28), date(2026, 3, 29), "Europe/Berlin")
    assert start.astimezone(UTC) == datetime(2026, 3, 27, 23, tzinfo=UTC)
    assert end.astimezone(UTC) == datetime(2026, 3, 29, 22, tzinfo=UTC)


def _submit_on(ledger: Ledger, clock: HandClock, day: int, pages: int) -> None:
    clock.now = datetime(2026, 4, day, 1, tzinfo=UTC)
    accept(
        ledger, *(f"https://site.test/{day}/{number}" for number in range(pages)), day=f"2026-04-{day:02d}"
    )


def test_a_month_is_forecast_from_whole_days_and_from_today_where_there_is_none(
    fresh_sqlite_url: str,
) -> None:
    clock = HandClock(datetime(2026, 4, 1, tzinfo=UTC))
    policy = LifecyclePolicy()
    with Ledger.open(fresh_sqlite_url, clock=clock) as ledger:
        nothing = forecast_month(ledger, policy)
        assert (nothing.committed, nothing.expected, nothing.runs_out_on) == (0, 0, None)
        _submit_on(ledger, clock, 1, 10)
        first = forecast_month(ledger, policy)
        assert (first.committed, first.pages_a_day, first.expected) == (10, 10.0, 300)
        _submit_on(ledger, clock, 2, 4)
        second = forecast_month(ledger, policy)
        assert (second.committed, second.pages_a_day) == (14, 10.0)
        assert second.expected == 14 + 6 + 28 * 10, "what is left of today, and the days that follow"
        _submit_on(ledger, clock, 12, 0)
        assert forecast_month(ledger, policy).pages_a_day == 0, "of the last week alone"
        _submit_on(ledger, clock, 14, 20)
        _submit_on(ledger, clock, 15, 10)
        limited = replace(policy, monthly_page_limit=100)
        last = forecast_month(ledger, limited)
        assert (last.committed, last.pages_a_day, last.limit) == (44, 20.0, 100)
        assert last.runs_out_on == date(2026, 4, 18)
        assert forecast_month(ledger, replace(policy, monthly_page_limit=44)).runs_out_on == date(2026, 4, 15)
        assert forecast_month(ledger, replace(policy, monthly_page_limit=5000)).runs_out_on is None
        assert {
            one.outcome for one in ledger.costs.spent(*span_of(date(2026, 4, 1), date(2026, 4, 30), "UTC"))
        } == {Outcome.IN_FLIGHT}
