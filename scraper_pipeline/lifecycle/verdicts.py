"""What a job's present state proves: its outcome, that it must be given up, or nothing yet."""

import random
from datetime import datetime

from scraper_pipeline.ledger import (
    ClaimedJob,
    Ended,
    Failure,
    GivenUp,
    ItemOutcome,
    JobOutcome,
    Ledger,
    LetterCode,
    NotYet,
    StoredPage,
)
from scraper_pipeline.lifecycle.policy import LifecyclePolicy, is_past
from scraper_pipeline.scraper_api import (
    AnswerTooLarge,
    Job,
    JobError,
    JobExpired,
    JobNotFound,
    ScraperClient,
)
from scraper_pipeline.scraper_api.models import Extraction

EXPIRED = Failure(LetterCode.EXPIRED, "The service no longer has this job's result.", retryable=False)


async def look_at(
    ledger: Ledger, client: ScraperClient, job: ClaimedJob, policy: LifecyclePolicy, chance: random.Random
) -> JobOutcome:
    """Fetch a claimed job's present state and say what it proves. Raises ScraperError where it proves nothing."""
    try:
        found = await client.get_job(job.job_id, budget=policy.settle_lease / 2)
    except JobNotFound:
        return JobOutcome(job, unknown_job(ledger, job, policy, chance))
    except JobExpired:
        return JobOutcome(job, Ended((ItemOutcome(job.item_key, EXPIRED),), "expired"))
    except AnswerTooLarge as error:
        failure = Failure(LetterCode.TOO_LARGE, str(error), retryable=False)
        return JobOutcome(job, Ended((ItemOutcome(job.item_key, failure),), "completed"))
    if found.is_terminal:
        item = ItemOutcome(job.item_key, item_result(found))
        return JobOutcome(job, Ended((item,), found.status, found.completed_at))
    if is_past(ledger, job.accepted_at, policy.job_timeout):
        message = f"The job was still {found.status} after {policy.job_timeout:g} seconds."
        return JobOutcome(job, GivenUp(LetterCode.TIMED_OUT, message))
    return JobOutcome(job, later(ledger, job, policy, chance, status=found.status))


def unknown_job(
    ledger: Ledger, job: ClaimedJob, policy: LifecyclePolicy, chance: random.Random
) -> GivenUp | NotYet:
    """The verdict on a job that the service does not know: given up once that has lasted for its grace.

    One whose end was reported long ago has expired, for all that can be told; any other is lost.
    """
    if job.missing_since is not None and is_past(ledger, job.missing_since, policy.lost_grace):
        message = f"The service has not known this job for {policy.lost_grace:g} seconds."
        is_old = job.reported_at is not None and is_past(ledger, job.reported_at, policy.job_timeout)
        return GivenUp(LetterCode.EXPIRED if is_old else LetterCode.LOST, message)
    return later(ledger, job, policy, chance, is_missing=True)


def item_result(job: Job) -> StoredPage | Failure:
    """The page of a completed job, or why there is none."""
    if job.status == "completed":
        return stored_page(job, job.completed_at)
    return failure_of(job.status, job.error)


def stored_page(
    found: Extraction,
    completed_at: datetime | None,
    *,
    parent_url: str | None = None,
    depth: int | None = None,
) -> StoredPage:
    """An extracted page as the ledger keeps it."""
    page = found.page
    return StoredPage(
        markdown=page.markdown if page else None,
        html=page.html if page else None,
        metadata=found.metadata,
        http_status=found.http_status,
        tokens_charged=found.tokens_charged,
        completed_at=completed_at,
        parent_url=parent_url,
        depth=depth,
    )


def failure_of(status: str, error: JobError | None) -> Failure:
    """Why a job or an item that ended without a page has none, and whether another attempt may help."""
    if error is None:
        return Failure(status.upper(), "The service gave no reason.", retryable=status != "cancelled")
    return Failure(
        error.code, error.message, retryable=error.is_retryable, spends_attempt=not error.stops_account
    )


def later(
    ledger: Ledger,
    job: ClaimedJob,
    policy: LifecyclePolicy,
    chance: random.Random,
    *,
    is_missing: bool = False,
    status: str | None = None,
) -> NotYet:
    """A verdict that leaves the job for another look, later and later."""
    return NotYet(ledger.clock() + policy.retry_delay(job.tries, chance), is_missing, status)
