"""What a day's pages are like: counted without their content, and compared with the days before."""

from datetime import UTC, datetime, time

import pytest

from scraper_pipeline.assets.deadline import check_done_in_time
from scraper_pipeline.assets.quality import check_size_is_usual
from scraper_pipeline.ledger import ContentFigures, Ledger
from scraper_pipeline_tests.integration.ledger.driving import DAY, accept, finish, page

URLS = [f"https://site.test/{number}" for number in range(24)]
DAYS = ("2026-03-01", "2026-03-02", "2026-03-03")


def _store(ledger: Ledger, day: str, *contents: str | None) -> None:
    jobs = accept(ledger, *URLS[: len(contents)], day=day, prefix=f"{day} ")
    finish(ledger, dict(zip(sorted(jobs), map(page, contents), strict=True)), day=day)


def _of_size(size: int) -> list[str]:
    return [f"{number:02}".ljust(size, "x") for number in range(len(URLS))]


def test_pages_are_counted_by_what_is_in_them(ledger: Ledger) -> None:
    assert ledger.quality.content(DAY) == ContentFigures(0, 0, 0, 0.0)
    _store(ledger, DAY, "one", "same", "same", "same", None, "")
    _store(ledger, DAYS[1], "same")
    figures = ledger.quality.content(DAY)
    assert figures == ContentFigures(pages=6, empty=2, repeated=2, mean_bytes=3.75)
    assert (figures.empty_share, figures.repeated_share) == (2 / 6, 2 / 6)


def test_a_page_that_was_paid_again_on_purpose_repeats_nothing(ledger: Ledger) -> None:
    _store(ledger, DAY, "one", "two")
    ledger.resubmissions.resubmit(list(ledger.resubmissions.settled_targets(DAY, "all")))
    _store(ledger, DAY, "one", "two")
    assert ledger.quality.content(DAY).repeated == 0
    assert ledger.quality.content(DAY).pages == 2


def test_bytes_count_and_not_characters(ledger: Ledger) -> None:
    _store(ledger, DAY, "é€")
    assert ledger.quality.content(DAY).mean_bytes == 5


@pytest.mark.parametrize(
    ("size", "is_usual"), [(100, True), (51, True), (199, True), (49, False), (201, False)]
)
def test_a_day_is_as_large_as_the_days_before(ledger: Ledger, size: int, is_usual: bool) -> None:
    _store(ledger, DAYS[0], *_of_size(100))
    _store(ledger, DAYS[1], *_of_size(5000)[:10])  # too few to tell
    _store(ledger, DAYS[2], *_of_size(size))
    result = check_size_is_usual(ledger, [DAYS[2]])
    assert result.passed is is_usual
    assert (result.metadata["mean_bytes"].value, result.metadata["usual_bytes"].value) == (size, 100)


def test_days_whose_content_was_dropped_say_nothing_of_what_is_usual(ledger: Ledger) -> None:
    _store(ledger, DAYS[0], *_of_size(100))
    _store(ledger, DAYS[1], *_of_size(100))
    _prune(ledger, DAYS[1])
    result = check_size_is_usual(ledger, [DAYS[1]])
    assert result.passed
    assert result.description == "There is too little to compare."
    _store(ledger, DAYS[2], *_of_size(300))
    result = check_size_is_usual(ledger, [DAYS[2]])
    assert result.metadata["usual_bytes"].value == 100
    assert result.description == "The pages of 2026-03-03 have 300 bytes on average, where 100 are usual."
    _prune(ledger, DAYS[0])
    assert check_size_is_usual(ledger, [DAYS[2]]).passed


def _prune(ledger: Ledger, day: str) -> None:
    [old] = [one for one in ledger.retention.old_days("2026-04-01") if one.partition_key == day]
    ledger.retention.drop_content(old)


def test_a_first_day_is_as_large_as_it_likes(ledger: Ledger) -> None:
    _store(ledger, DAY, *_of_size(100))
    assert check_size_is_usual(ledger, [DAY]).passed


NOON = time(12)


def _at(day: int, hour: int) -> datetime:
    return datetime(2026, 3, day, hour, tzinfo=UTC)


def test_a_day_is_late_from_its_deadline_until_it_is_settled(ledger: Ledger) -> None:
    jobs = accept(ledger, URLS[0])
    assert check_done_in_time(ledger, _at(1, 11), NOON).passed
    late = check_done_in_time(ledger, _at(1, 12), NOON)
    assert not late.passed
    assert "status" in str(late.metadata["what_to_do"].value)
    assert not check_done_in_time(ledger, _at(2, 11), NOON).passed
    finish(ledger, {jobs[0]: page()})
    assert check_done_in_time(ledger, _at(2, 11), NOON).passed


def test_a_day_after_a_planned_one_is_missed_if_nothing_planned_it(ledger: Ledger) -> None:
    finish(ledger, {job: page() for job in accept(ledger, URLS[0])})
    missed = check_done_in_time(ledger, _at(2, 12), NOON)
    assert not missed.passed
    assert "2026-03-02 was never planned" in str(missed.metadata["what_to_do"].value)
    assert not check_done_in_time(ledger, _at(8, 12), NOON).passed
    assert check_done_in_time(ledger, _at(9, 12), NOON).passed, "after a week it is out of use"
    finish(ledger, {job: page() for job in accept(ledger, URLS[1], day="2026-03-02")}, day="2026-03-02")
    assert check_done_in_time(ledger, _at(2, 12), NOON).passed
