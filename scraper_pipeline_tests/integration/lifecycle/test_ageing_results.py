"""Results that the service keeps for a while only, and times that it tells in forms of its own."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Channel
from scraper_pipeline.ledger.schema import dead_letters, results
from scraper_pipeline.sandbox.rules import OddForm
from scraper_pipeline_tests.integration.ledger.driving import contents, rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)

UNREADABLE_FORMS = {"words"}


def _letters(world: World) -> list[str]:
    return [row.error_code for row in rows(world.ledger, select(dead_letters)) if row.resolved_at is None]


@pytest.mark.parametrize("status", [410, 404])
def test_a_result_that_is_gone_when_it_is_fetched_is_parked_with_its_reason_and_not_bought_again(
    world: World, status: int
) -> None:
    asyncio.run(world.submit(*world.urls(2)))
    world.await_ends()
    world.ledger.news.record([job["job_id"] for job in world.jobs()], Channel.WEBHOOK)
    world.service.set_faults(expire_results_after=60.0, expired_status=status)
    world.clock.advance(61)
    asyncio.run(world.bring_to_an_end())
    assert _letters(world) == ["expired", "expired"]
    assert world.posts() == 2
    assert world.ledger.audit.check() == []


@pytest.mark.parametrize("status", [410, 404])
def test_a_page_that_was_stored_outlives_the_services_copy_and_is_not_asked_for_again(
    world: World, status: int
) -> None:
    asyncio.run(world.bring_to_an_end(*world.urls(2)))
    world.service.set_faults(expire_results_after=60.0, expired_status=status)
    world.clock.advance(30 * 24 * 3600)
    before, asked = contents(world.ledger), world.gets()
    asyncio.run(world.poll())
    world.settle()
    assert contents(world.ledger)["results"] == before["results"]
    assert (world.gets(), world.posts()) == (asked, 2)
    assert _letters(world) == []


@pytest.mark.parametrize("form", get_args(OddForm))
def test_a_time_in_an_odd_form_keeps_no_page_from_being_stored(world: World, form: str) -> None:
    world.service.set_faults(odd_timestamps={"forms": [form], "on": "get"})
    asyncio.run(world.bring_to_an_end(*world.urls(2)))
    assert world.ledger.progress.of(DAY).stored == 2
    for row in rows(world.ledger, select(results)):
        if form in UNREADABLE_FORMS:
            assert row.completed_at is None
        else:
            assert abs(row.completed_at - datetime.now(UTC)) < timedelta(days=1, minutes=5)
    assert world.violations() == []
