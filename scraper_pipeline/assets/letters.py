"""What the jobs ``retry_dead_letters`` and ``discard_dead_letters`` do: the dead-letter desk from within Dagster."""

import asyncio
from datetime import date

import dagster as dg
from pydantic import Field

from scraper_pipeline.accounts import retry_in_turn
from scraper_pipeline.ledger import Ledger, LetterFilter
from scraper_pipeline.resources import LedgerResource, ScraperResource, explained_failures


class LettersConfig(dg.Config):
    """Which letters are meant: those with these ids, or the open ones with these codes and of these days."""

    ids: list[int] = Field(
        default=[], description="These letters; `codes`, `days` and `limit` stay out then."
    )
    codes: list[str] = Field(default=[], description="Open letters with one of these reasons.")
    days: list[str] = Field(default=[], description="Open letters of these days, such as 2026-01-31.")
    limit: int | None = Field(default=None, ge=1, description="At most so many letters, those parked first.")

    def choose(self, ledger: Ledger) -> list[int]:
        """The ids of the letters that are meant. Raises dagster.Failure where that is not clear."""
        if bool(self.ids) == bool(self.codes or self.days):
            raise _unclear("Say which letters: either by `ids`, or by `codes`, `days` or both.")
        if not self.ids:
            days = tuple(map(_checked_day, self.days))
            return ledger.letters.ids(LetterFilter(tuple(self.codes), days), self.limit)
        if self.limit is not None:
            raise _unclear("`limit` goes with `codes` and `days`, not with `ids`.")
        if unknown := ledger.letters.unknown(self.ids):
            raise _unclear(f"There is no dead letter {', '.join(map(str, unknown))}.")
        return self.ids


class RetryConfig(LettersConfig):
    """Which letters are retried, and what that may cost."""

    max_pages: int | None = Field(
        default=None,
        ge=0,
        description="The most pages that may be planned again; a crawl counts with its limit.",
    )


class DiscardConfig(LettersConfig):
    """Which letters are discarded, and why."""

    note: str | None = Field(default=None, max_length=500, description="Why; it is kept with the letters.")


def _unclear(message: str) -> dg.Failure:
    return dg.Failure(f"{message} Nothing was done.", allow_retries=False)


def _checked_day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise _unclear(f"`days` takes days such as 2026-01-31; one was {text[:40]!r}.") from None


@dg.op(description="Plan the targets of chosen dead letters once more; submit_jobs sends them.")
def retry_chosen_letters(
    context: dg.OpExecutionContext, config: RetryConfig, scraper: ScraperResource
) -> None:
    with explained_failures(), scraper.open() as accounts:
        chosen = config.choose(accounts.ledger)
        parked = accounts.ledger.resubmissions.parked_targets(chosen)
        days = sorted({target.partition_key for target in parked})
        report = asyncio.run(retry_in_turn(list(accounts), chosen, config.max_pages))
    context.log.info(
        f"{report.planned} targets are planned again, for at most {report.pages} pages. Nothing is sent by this run: "
        "job_status_sensor asks for submit_jobs."
    )
    if left := report.beyond + report.running + report.settled + report.resolved:
        context.log.warning(
            f"{left} letters are not planned again: {report.beyond} for `max_pages`, {report.running} since their jobs "
            f"still run, {report.settled} since their pages are stored instead, {report.resolved} since they were "
            "resolved before."
        )
    context.add_output_metadata(
        {
            "letters": len(chosen),
            "planned": report.planned,
            "most_pages": report.pages,
            "beyond_max_pages": report.beyond,
            "still_running": report.running,
            "stored_instead": report.settled,
            "resolved_before": report.resolved,
            "days": ", ".join(days[:31]),
        }
    )


@dg.op(description="Resolve chosen dead letters for good; their targets stay parked.")
def discard_chosen_letters(
    context: dg.OpExecutionContext, config: DiscardConfig, ledger: LedgerResource
) -> None:
    with explained_failures(), ledger.open() as book:
        chosen = config.choose(book)
        discarded = sum(one.letters.discard(chosen, config.note) for one in book.each)
    context.log.info(f"{discarded} letters are discarded; `resubmit` leaves their targets alone.")
    context.add_output_metadata(
        {"letters": len(chosen), "discarded": discarded, "resolved_before": len(chosen) - discarded}
    )
