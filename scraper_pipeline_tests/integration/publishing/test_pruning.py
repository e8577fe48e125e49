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
    retention,
)
from scraper_pipeline.ledger.retention import WATCHED_FOR
from scraper_pipeline.ledger.schema import dead_letters, partitions, processed_events, quarantine, results
from scraper_pipeline.lifecycle import LifecyclePolicy
from scraper_pipeline.publishing import (
    ExportFormat,
    Place,
    PruneReport,
    PublishingError,
    Retention,
    Selection,
    export_file,
    open_place,
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
    accept_planned,
    finish,
    interrupting,
    page,
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

    assert prune(ledger, folder, only_content, LATER) == PruneReport((), 0, (DAY,), (), NO_TRACES)
    assert contents(ledger) == ["# Page 1", "# Page 2"]

    publish_pages(ledger, folder, DAY)
    assert what_is_old(ledger, folder, only_content, LATER) == PruneReport((DAY,), 2, (), (), NO_TRACES)
    assert contents(ledger) == ["# Page 1", "# Page 2"]
    assert prune(ledger, folder, only_content, LATER) == PruneReport((DAY,), 2, (), (), NO_TRACES)
    assert prune(ledger, folder, only_content, LATER) == PruneReport((), 0, (), (), NO_TRACES)

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


def test_a_day_with_anything_open_keeps_its_content(ledger: Ledger, folder: Place, clock: HandClock) -> None:
    everything = Retention(content_days=30, even_unpublished=True)
    store(ledger, site(1))
    [given_up] = accept(ledger, "https://site.test/2")
    assert prune(ledger, folder, everything, LATER).unsettled == (DAY,)
    finish(ledger, {given_up: GivenUp(LetterCode.LOST, "The service does not know it.")})
    assert prune(ledger, folder, everything, LATER).unsettled == (DAY,), "it may be stored after all"
    clock.advance((WATCHED_FOR + timedelta(hours=1)).total_seconds())
    report = prune(ledger, folder, everything, LATER)
    assert (report.days, report.unsettled) == ((DAY,), ())


def test_what_comes_while_a_day_is_pruned_keeps_its_content(
    ledger: Ledger, folder: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes after the look at the file, or between two transactions."""
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    store(ledger, site(1, 2, 3, 4))
    publish_pages(ledger, folder, DAY)
    late = iter((site(5), site(6)))

    def come_late(_what: str, _more: int, _total: int | None) -> None:
        if page := next(late, None):
            store(ledger, page)

    assert prune(ledger, folder, KEEP, LATER, come_late).pages == 2
    left = [text for text in contents(ledger) if text]
    assert len(left) == 3
    assert "# Page 5" in left
    assert ledger.retention.pruned([DAY]) == []

    [day] = ledger.retention.old_days(LATER.isoformat())
    store(ledger, site(7))
    assert ledger.retention.drop_content(day) == 0


def test_a_pruned_day_that_is_scraped_anew_is_published_anew(
    ledger: Ledger, folder: Place, clock: HandClock
) -> None:
    store(ledger, site(1))
    publish_pages(ledger, folder, DAY)
    prune(ledger, folder, KEEP, LATER)
    [target] = ledger.resubmissions.settled_targets(DAY, "all")
    ledger.resubmissions.resubmit([target])
    clock.advance(60)
    [again] = accept_planned(ledger)
    finish(ledger, {again: page("# Page 1, as it is now")})
    assert publish_pages(ledger, folder, DAY).changed
    assert column(table(folder), "markdown") == ["# Page 1, as it is now"]
    assert prune(ledger, folder, KEEP, LATER).pages == 1


def test_an_export_of_a_pruned_day_is_refused_unless_it_asks_for_no_content(
    ledger: Ledger, folder: Place, tmp_path: Path
) -> None:
    store(ledger, site(1))
    prune(ledger, folder, Retention(content_days=30, even_unpublished=True), LATER)
    to = open_place(str(tmp_path))
    with pytest.raises(PublishingError, match="was pruned"):
        export_file(ledger, Selection(DAY), ExportFormat.CSV, to, "all.csv")
    assert not (tmp_path / "all.csv").exists()
    assert export_file(ledger, Selection(DAY, ["url"]), ExportFormat.CSV, to, "urls.csv").rows == 1


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


@pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)
def test_sqlite_has_the_room_of_what_was_dropped_for_what_comes(ledger: Ledger, folder: Place) -> None:
    """In most of its layouts a row that has shrunk would keep a page of the file, as good as empty, to itself."""
    pages = dict.fromkeys(site(*range(1, 101)), page("x" * 31_000))
    store(ledger, pages)
    publish_pages(ledger, folder, DAY)
    assert prune(ledger, folder, KEEP, LATER).pages == len(pages)
    with ledger.submissions.reading() as connection:
        free, count = (
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("freelist_count", "page_count")
        )
    assert count > 2 * len(pages), "each page of text had two of the file"
    assert count - free < 75, "and of what is used most are empty indexes"


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


def test_a_job_is_watched_as_long_as_its_day_keeps_its_content() -> None:
    assert LifecyclePolicy().watch_for == WATCHED_FOR.total_seconds()
