"""Heartbeats: who works on what, and for how long after the last sign of life."""

from scraper_pipeline.ledger import Ledger
from scraper_pipeline_tests.integration.ledger.driving import DAY, NEXT_DAY, HandClock


def test_a_lease_has_one_holder_until_it_ends(ledger: Ledger, clock: HandClock) -> None:
    assert ledger.leases.take("settle", DAY, "one", 60)
    assert not ledger.leases.take("settle", DAY, "other", 60)
    assert ledger.leases.live("settle") == {DAY}
    clock.advance(60)
    assert ledger.leases.live("settle") == set()
    assert ledger.leases.take("settle", DAY, "other", 60)


def test_a_holder_prolongs_its_own_lease(ledger: Ledger, clock: HandClock) -> None:
    ledger.leases.take("settle", DAY, "one", 60)
    clock.advance(59)
    assert ledger.leases.take("settle", DAY, "one", 60)
    clock.advance(59)
    assert not ledger.leases.take("settle", DAY, "other", 60)


def test_only_the_holder_gives_a_lease_up(ledger: Ledger) -> None:
    ledger.leases.take("settle", DAY, "one", 60)
    ledger.leases.drop("settle", DAY, "other")
    assert ledger.leases.live("settle") == {DAY}
    ledger.leases.drop("settle", DAY, "one")
    assert ledger.leases.live("settle") == set()


def test_leases_of_other_names_and_days_are_others(ledger: Ledger) -> None:
    assert ledger.leases.take("settle", DAY, "one", 60)
    assert ledger.leases.take("poll", DAY, "other", 60)
    assert ledger.leases.take("settle", NEXT_DAY, "other", 60)
    assert ledger.leases.live("settle") == {DAY, NEXT_DAY}


def test_a_lease_can_be_taken_from_its_holder_by_force(ledger: Ledger, clock: HandClock) -> None:
    ledger.leases.take("poll", "*", "one", 600)
    assert ledger.leases.take("poll", "*", "other", 10, force=True)
    clock.advance(10)
    assert ledger.leases.take("poll", "*", "one", 10)
