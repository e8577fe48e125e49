"""What is old leaves the ledger: never what is open, unpublished or still needed to pay nothing twice."""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import select

from scraper_pipeline.cli import main
from scraper_pipeline.ledger import (
    Channel,
    Delivery,
    Failure,
    GivenUp,
    Ledger,
    LetterCode,
    QuarantinedBody,
    Traces,
)
from scraper_pipeline.ledger.schema import dead_letters, partitions, processed_events, quarantine, results
from scraper_pipeline.publishing import (
    Place,
    PruneReport,
    PublishingError,
    Retention,
    prune,
    publish_pages,
    what_is_old,
)
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    NEXT_DAY,
    HandClock,
    Interrupted,
    accept,
    finish,
    interrupting,
    plan,
    rows,
)
from scraper_pipeline_tests.integration.publishing.driving import column, site, store, table

KEEP = Retention(content_days=30, news_days=30)
LATER = date(2026, 4, 15)  # more than 30 days after DAY
NO_TRACES = Traces()


@pytest.fixture
def ledger(fresh_url: str, clock: HandClock) -> Iterator[Ledger]:
    with Ledger.open(fresh_url, clock=clock) as ledger:
        yield ledger


def contents(ledger: Ledger, day: str = DAY) -> list[str | None]:
    of_day = select(results).where(results.c.partition_key == day).order_by(results.c.url)
    return [row.markdown for row in rows(ledger, of_day)]


def test_the_content_of_old_days_goes_once_it_is_published_and_nothing_else_does(
    ledger: Ledger, folder: Place
) -> None:
    store(ledger, site(1, 2))
    store(ledger, site(3), day="2026-04-14")
    before = {row.url: row for row in rows(ledger, select(results))}
    only_content = Retention(content_days=30)

    assert prune(ledger, folder, only_content, LATER) == PruneReport((), 0, (DAY,), NO_TRACES)
    assert contents(ledger) == ["# Page 1", "# Page 2"]

    publish_pages(ledger, folder, DAY)
    assert what_is_old(ledger, folder, only_content, LATER) == PruneReport((DAY,), 2, (), NO_TRACES)
    assert contents(ledger) == ["# Page 1", "# Page 2"]
    assert prune(ledger, folder, only_content, LATER) == PruneReport((DAY,), 2, (), NO_TRACES)
    assert prune(ledger, folder, only_content, LATER) == PruneReport((), 0, (), NO_TRACES)

    assert contents(ledger) == [None, None]
    assert contents(ledger, "2026-04-14") == ["# Page 3"]
    for row in rows(ledger, select(results)):
        kept = before[row.url]._asdict() | {"markdown": row.markdown}
        assert row._asdict() == kept
    assert ledger.progress.of(DAY).stored == 2
    assert ledger.retention.pruned([DAY, "2026-04-14"]) == [DAY]
    assert ledger.audit.check() == []
    plan(ledger, *site(1, 2))
    assert ledger.progress.of(DAY).planned == 0, "nothing is paid again"


def test_a_day_with_anything_open_keeps_its_content(ledger: Ledger, folder: Place) -> None:
    everything = Retention(content_days=30, even_unpublished=True)
    store(ledger, site(1))
    [given_up] = accept(ledger, "https://site.test/2")
    assert prune(ledger, folder, everything, LATER).days == ()
    finish(ledger, {given_up: GivenUp(LetterCode.LOST, "The service does not know it.")})
    assert prune(ledger, folder, everything, LATER).days == (), "it may be stored after all"
    finish(ledger, {given_up: Failure("HTTP_404", "It is gone.", retryable=False)})
    assert prune(ledger, folder, everything, LATER).days == (DAY,)


def test_a_file_is_never_written_from_what_is_left_of_a_day(ledger: Ledger, folder: Place) -> None:
    store(ledger, site(1))
    publish_pages(ledger, folder, DAY)
    prune(ledger, folder, KEEP, LATER)
    assert not publish_pages(ledger, folder, DAY).changed

    store(ledger, site(2))  # late, and its content is not dropped while no file has it
    with pytest.raises(PublishingError, match="was pruned"):
        publish_pages(ledger, folder, DAY)
    assert column(table(folder), "markdown") == ["# Page 1"]
    assert prune(ledger, folder, KEEP, LATER).unpublished == (DAY,)
    assert contents(ledger) == [None, "# Page 2"]


def test_a_run_that_is_broken_off_is_gone_on_with(ledger: Ledger, folder: Place) -> None:
    store(ledger, site(*range(1, 8)))
    publish_pages(ledger, folder, DAY)
    nth, is_whole = 0, False
    while not is_whole:
        nth += 1
        try:
            with interrupting(ledger.engine, nth):
                prune(ledger, folder, KEEP, LATER)
            is_whole = True
        except Interrupted:
            assert ledger.audit.check() == []
    assert nth > 3
    assert contents(ledger) == [None] * 7
    assert ledger.audit.check() == []


def test_traces_of_news_are_forgotten_and_news_that_waits_is_not(
    ledger: Ledger, folder: Place, clock: HandClock
) -> None:
    store(ledger, site(1, 2))
    [waiting] = accept(ledger, "https://site.test/3")
    ledger.news.record([waiting], Channel.WEBHOOK)
    ledger.inbox.commit(
        [Delivery(job_id="nobody's", event_type="job.completed", delivery_id="d1")],
        [QuarantinedBody("no_job_id", b"{}")],
    )
    clock.advance(timedelta(days=31).total_seconds())
    news = Retention(news_days=30)
    assert what_is_old(ledger, folder, news, LATER).traces == Traces(events=2, quarantined=1)
    assert prune(ledger, folder, news, LATER).traces == Traces(events=2, quarantined=1)
    assert {row.job_id for row in rows(ledger, select(processed_events))} == {waiting, "nobody's"}
    assert rows(ledger, select(quarantine)) == []
    assert ledger.audit.check() == []


def test_news_of_a_job_that_was_forgotten_stores_nothing_again(
    ledger: Ledger, folder: Place, clock: HandClock
) -> None:
    store(ledger, site(1))
    [stored] = rows(ledger, select(results))
    clock.advance(timedelta(days=31).total_seconds())
    prune(ledger, folder, Retention(news_days=30), LATER)
    ledger.news.record([stored.job_id], Channel.WEBHOOK)
    finish(ledger, {stored.job_id: Failure("HTTP_500", "It says now.", retryable=True)})
    assert contents(ledger) == ["# Page 1"]
    assert ledger.progress.of(DAY).stored == 1
    assert ledger.audit.check() == []


def test_letters_are_forgotten_only_when_told_and_only_those_that_stand_no_more(
    ledger: Ledger, folder: Place, clock: HandClock
) -> None:
    permanent = Failure("HTTP_404", "It is gone.", retryable=False)
    finish(ledger, {job: permanent for job in accept(ledger, *site(1, 2, 3))})
    open_letter, discarded, resolved = (row.id for row in rows(ledger, select(dead_letters)))
    ledger.letters.discard([discarded])
    with ledger.submissions.writing() as connection:
        connection.execute(
            dead_letters.update()
            .where(dead_letters.c.id == resolved)
            .values(resolution="resubmitted", resolved_at=clock.now)
        )
    clock.advance(timedelta(days=400).total_seconds())
    prune(ledger, folder, KEEP, LATER)
    assert len(rows(ledger, select(dead_letters))) == 3
    told = Retention(letters_days=365)
    assert prune(ledger, folder, told, LATER).traces == Traces(letters=1)
    assert {row.id for row in rows(ledger, select(dead_letters))} == {open_letter, discarded}


@pytest.fixture
def command(fresh_sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SCRAPER_LEDGER_URL", fresh_sqlite_url)
    monkeypatch.setenv("SCRAPER_PAGES_URL", str(tmp_path / "pages"))
    with Ledger.open(fresh_sqlite_url) as ledger:
        store(ledger, site(1, 2))
        store(ledger, site(3), day=NEXT_DAY)

    def run(*arguments: str) -> tuple[int, str]:
        ended = CliRunner().invoke(main, ["prune", *arguments])
        return ended.exit_code, ended.output

    return run


def test_the_command_says_what_it_would_drop_and_drops_it_only_on_a_yes(command: Any) -> None:
    code, said = command()
    assert (code, "Say what is old" in said) == (2, True)
    code, said = command("--content-after", "7")
    assert (code, "x>=8" in said) == (2, True)
    code, said = command("--content-after", "30", "--dry-run")
    assert code == 0
    assert "To be dropped: nothing." in said
    assert f"no published file shows all of their pages: {DAY}, {NEXT_DAY}" in said
    code, said = command("--content-after", "30", "--unpublished")
    assert (code, "Drop the content of 3 pages of 2 days, for good?" in said) == (1, True)
    code, said = command("--content-after", "30", "--unpublished", "--yes", "--json")
    assert (code, '"pages": 3' in said) == (0, True)
    code, said = command("--content-after", "30", "--unpublished", "--dry-run")
    assert "To be dropped: nothing." in said


def test_a_partition_tells_when_its_content_was_dropped(ledger: Ledger, folder: Place) -> None:
    store(ledger, site(1))
    prune(ledger, folder, Retention(content_days=30, even_unpublished=True), LATER)
    [day] = rows(ledger, select(partitions))
    assert day.pruned_at == ledger.clock()
