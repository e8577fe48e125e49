"""Reads a ledger's tables in the form of the model, empties them, and tells what an audit may find."""

from collections import Counter

from sqlalchemy import delete, select

from scraper_pipeline.ledger import Ledger, Violation, hash_url
from scraper_pipeline.ledger.schema import (
    dead_letters,
    jobs,
    metadata,
    processed_events,
    results,
    submissions,
)
from scraper_pipeline_tests.integration.ledger.state_machine.model import CHANNELS, Model
from scraper_pipeline_tests.integration.ledger.state_machine.rows import SENDING
from scraper_pipeline_tests.integration.ledger.state_machine.service import MemoryService, Page

_row, _letter, _result, _event, _job = (
    submissions.c, dead_letters.c, results.c, processed_events.c, jobs.c,
)  # fmt: skip
_READ = {
    "submissions": select(
        _row.partition_key, _row.target_id, _row.attempt, _row.first_attempt, _row.url, _row.kind, _row.state,
        _row.not_before, _row.request_id, _row.sent_at, _row.lease_until, _row.job_id, _row.item_key, _row.given_up,
    ),
    "dead_letters": select(_letter.partition_key, _letter.target_id, _letter.error_code, _letter.resolution),
    "results": select(
        _result.job_id, _result.item_key, _result.partition_key, _result.target_id, _result.attempt
    ),
    "processed_events": select(
        _event.job_id, *(_event[f"{channel}_at"] for channel in CHANNELS), _event.available_at, _event.tries,
        _event.claimed_by, _event.given_up_at.is_not(None), _event.processed_at.is_not(None),
    ),
    "jobs": select(
        _job.job_id, _job.partition_key, _job.kind, _job.next_look_at, _job.missing_since, _job.pages_read
    ),
}  # fmt: skip


def empty(ledger: Ledger) -> None:
    with ledger.submissions.writing() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(delete(table))


def assert_same(ledger: Ledger, model: Model) -> None:
    """The ledger holds what the model holds, row for row."""
    expected = model.contents()
    with ledger.submissions.reading() as connection:
        for name, statement in _READ.items():
            found = Counter(tuple(row) for row in connection.execute(statement))
            assert found == expected[name], (
                f"{name}: {list((found - expected[name]).elements())} where the model has "
                f"{list((expected[name] - found).elements())}"
            )


def excused_pages(model: Model, service: MemoryService) -> set[Page]:
    """Pages that may be paid for nothing: other programs', and those of the design's named windows."""
    excused = set()
    for job in service.jobs.values():
        rows = [row for row in model.all_rows() if job.made_for and row.request_id == job.made_for]
        is_excused = (
            job.made_for is None
            or job.made_for in model.unresolved_requests
            or any(row.job_id != job.job_id and is_foreign(service, row.job_id) for row in rows)
        )
        for item in job.items:
            page = (job.job_id, hash_url(item.url))
            is_gone = job.is_gone and page not in model.results
            if is_excused or is_gone or page in model.lost_and_resubmitted:
                excused.add(page)
    return excused


def is_foreign(service: MemoryService, job_id: str | None) -> bool:
    return job_id is not None and service.jobs[job_id].made_for is None


def violations(ledger: Ledger, model: Model, service: MemoryService, at_rest: bool) -> list[Violation]:
    """What the audit finds; while work is under way, a page that is paid and on its way home is no violation."""
    books = service.books(excused_pages(model, service))
    against_books = [
        found
        for found in ledger.audit.check_against(books)
        if at_rest or found.rule != "paid_is_stored" or not _is_under_way(found, model, service)
    ]
    return [*ledger.audit.check(), *against_books]


def _is_under_way(found: Violation, model: Model, service: MemoryService) -> bool:
    """Whether the page's row waits for it, or for the answer that names its job."""
    if found.target_id is not None:
        attempts = model.rows[found.partition_key or "", found.target_id]
        return any(row.is_waiting and (row.job_id or "") in found.detail for row in attempts)
    sending = {row.request_id for row in model.all_rows(SENDING)}
    return any(job.made_for in sending and job.job_id in found.detail for job in service.jobs.values())
