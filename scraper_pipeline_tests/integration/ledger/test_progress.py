"""What the ledger says about a day: counts, what can be done now, and what came out."""

import pytest

from scraper_pipeline.ledger import GivenUp, Ledger, LetterCode, PartitionRevision, Progress
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    NEXT_DAY,
    PERMANENT,
    RETRYABLE,
    HandClock,
    accept,
    bring_news,
    claim,
    claim_jobs,
    finish,
    page,
    plan,
)

A, B, C, D = (f"https://site.test/{name}" for name in "abcd")


def test_each_target_is_counted_once_by_its_newest_submission(ledger: Ledger) -> None:
    a, b, c, _ = accept(ledger, A, B, C, D)
    finish(ledger, {a: page(), b: RETRYABLE, c: PERMANENT})
    progress = ledger.progress.of(DAY)
    assert progress == Progress(planned=1, accepted=1, stored=1, dead=1)
    assert progress.targets == 4
    assert not progress.is_settled
    assert not progress.is_accepted
    assert ledger.progress.resubmissions(DAY) == 1
    assert ledger.progress.of(NEXT_DAY) == Progress()


def test_a_day_is_settled_when_nothing_is_in_flight(ledger: Ledger) -> None:
    a, b = accept(ledger, A, B)
    assert ledger.progress.of(DAY).is_accepted
    finish(ledger, {a: page(), b: GivenUp(LetterCode.LOST, "Gone.")})
    assert ledger.progress.of(DAY).is_settled


def test_what_is_planned_can_be_submitted_once_it_is_due(ledger: Ledger, clock: HandClock) -> None:
    assert ledger.progress.partitions_to_submit() == []
    plan(ledger, A, B)
    plan(ledger, C, day=NEXT_DAY)
    assert [(one.partition_key, one.pending) for one in ledger.progress.partitions_to_submit()] == [
        (DAY, 2),
        (NEXT_DAY, 1),
    ]
    [job] = accept(ledger, day=NEXT_DAY)
    finish(ledger, {job: RETRYABLE}, NEXT_DAY)
    assert [one.partition_key for one in ledger.progress.partitions_to_submit()] == [DAY]
    clock.advance(5)
    assert [one.partition_key for one in ledger.progress.partitions_to_submit()] == [DAY, NEXT_DAY]


def test_a_row_held_back_by_its_url_is_no_work_that_a_run_could_do(ledger: Ledger) -> None:
    plan(ledger, A)
    claim(ledger)
    plan(ledger, A, day=NEXT_DAY)
    assert ledger.progress.partitions_to_submit() == []


def test_the_watermark_of_a_day_changes_when_more_arrives_and_not_otherwise(
    ledger: Ledger, clock: HandClock
) -> None:
    def watermarks() -> tuple[str, str]:
        [submit], [settle] = ledger.progress.partitions_to_submit(), ledger.progress.partitions_to_settle()
        return submit.watermark, settle.watermark

    a, b = accept(ledger, A, B)
    bring_news(ledger, a)
    plan(ledger, C)
    first = watermarks()
    clock.advance(1)
    assert watermarks() == first
    plan(ledger, D)
    bring_news(ledger, b)
    assert watermarks()[0] != first[0]
    assert watermarks()[1] != first[1]


def test_news_that_somebody_holds_is_no_work_for_another_run(ledger: Ledger, clock: HandClock) -> None:
    a, b = accept(ledger, A, B)
    bring_news(ledger, a, b)
    [pending] = ledger.progress.partitions_to_settle()
    assert pending.pending == 2
    claim_jobs(ledger, limit=1)
    assert [one.pending for one in ledger.progress.partitions_to_settle()] == [1]
    clock.advance(60)
    assert [one.pending for one in ledger.progress.partitions_to_settle()] == [2]


def test_every_change_of_a_day_raises_its_revision(ledger: Ledger, clock: HandClock) -> None:
    assert ledger.progress.revision(DAY) == 0
    seen = [0]
    [job] = accept(ledger, A)
    seen.append(ledger.progress.revision(DAY))
    finish(ledger, {job: RETRYABLE})
    seen.append(ledger.progress.revision(DAY))
    assert seen == sorted(set(seen))
    plan(ledger, A, day=NEXT_DAY)
    assert ledger.progress.revisions(1) == [PartitionRevision(NEXT_DAY, 1)]
    assert ledger.progress.revision(DAY) == seen[-1]


def test_figures_tell_pages_tokens_and_latency(ledger: Ledger, clock: HandClock) -> None:
    a, b, c = accept(ledger, A, B, C)
    for job, seconds in ((a, 1), (b, 2), (c, 3)):
        clock.advance(seconds)
        finish(ledger, {job: page(tokens_charged=2)})
    figures = ledger.progress.figures(DAY)
    assert (figures.pages, figures.empty, figures.tokens_charged) == (3, 0, 6)
    assert (figures.latency_p50, figures.latency_p95) == (3, 6)
    assert ledger.progress.figures(NEXT_DAY).pages == 0


def test_the_oldest_open_target_gives_its_age(ledger: Ledger, clock: HandClock) -> None:
    assert ledger.progress.oldest_open_seconds() == 0
    [job] = accept(ledger, A)
    clock.advance(90)
    plan(ledger, B, day=NEXT_DAY)
    assert ledger.progress.oldest_open_seconds() == 90
    finish(ledger, {job: page()})
    assert ledger.progress.oldest_open_seconds() == 0


def test_previews_hold_no_content(ledger: Ledger) -> None:
    a, b = accept(ledger, A, B)
    finish(ledger, {a: page("the content"), b: PERMANENT})
    shown = [
        *ledger.progress.submissions_preview(DAY),
        *ledger.progress.results_preview(DAY),
        *ledger.progress.letters_preview(DAY),
    ]
    assert len(shown) == 4
    assert "the content" not in str(shown)
    assert ledger.progress.letters_by_code(DAY) == {"PERMANENT_BLOCK": 1}


def test_results_are_read_by_column_for_one_day_or_several(ledger: Ledger) -> None:
    for day, url in ((DAY, A), (NEXT_DAY, B)):
        [job] = accept(ledger, url, day=day)
        finish(ledger, {job: page(f"page of {day}")}, day)
    read = ledger.progress.read_results([DAY, NEXT_DAY], ["url", "markdown"])
    assert [dict(row) for row in read] == [
        {"url": A, "markdown": f"page of {DAY}"},
        {"url": B, "markdown": f"page of {NEXT_DAY}"},
    ]
    with pytest.raises(ValueError, match="secret_column"):
        ledger.progress.read_results([DAY], ["secret_column"])
