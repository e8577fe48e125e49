"""What a look at a job, or a reading of a batch, may conclude of what the service has (rules 4 and 6)."""

from datetime import datetime, timedelta

from scraper_pipeline.ledger import (
    Ended,
    Failure,
    GivenUp,
    JobOutcome,
    LetterCode,
    NotYet,
    Part,
    StoredPage,
    hash_url,
)
from scraper_pipeline.lifecycle import LifecyclePolicy
from scraper_pipeline_tests.integration.ledger.state_machine.actors import (
    MISSING,
    RUNNING,
    MemoryClient,
)
from scraper_pipeline_tests.integration.ledger.state_machine.jobs import Ending, MemoryBatch, MemoryJob
from scraper_pipeline_tests.integration.ledger.state_machine.model import Model


def check_look(outcome: JobOutcome, job: MemoryJob, policy: LifecyclePolicy, now: datetime) -> None:
    """The job's present state decides, and its age or the length of its absence."""
    if job.is_gone:
        _check_absence(outcome, policy, now)
    elif job.is_at_rest:
        assert isinstance(outcome.verdict, Ended)
        [item] = outcome.verdict.items
        assert item.item_key == outcome.job.item_key
        _check_result(item.result, job.items[0].ending)
    else:
        _check_patience(outcome, policy, now)


def check_reading(
    outcome: JobOutcome, client: MemoryClient, model: Model, policy: LifecyclePolicy, now: datetime
) -> None:
    """The batch's state decides whether it is read at all, and then each item's own about its row.

    Judged is what counts: of what was found under a claim that is lost nothing will.
    """
    job_id, batch = outcome.job.job_id, client.service.jobs[outcome.job.job_id]
    assert isinstance(batch, MemoryBatch)
    if not model.is_held(outcome.job):
        return
    if isinstance(outcome.verdict, Ended | Part):
        _check_items(outcome.verdict, batch, model)
    elif client.answers[job_id] == RUNNING:
        _check_patience(outcome, policy, now)
    elif client.answers[job_id] == MISSING and job_id not in client.held:
        _check_absence(outcome, policy, now)
    else:
        _check_doubt(outcome, batch, client, policy, now)


def _check_items(verdict: Ended | Part, batch: MemoryBatch, model: Model) -> None:
    assert batch.ended_as, "results were read before the batch had ended"
    there = {hash_url(item.url): item.ending for item in batch.shown}
    for item in verdict.items:
        assert item.item_key in there, "an item was made up"
        _check_result(item.result, there[item.item_key])
    if isinstance(verdict, Part):
        assert 0 <= verdict.pages_read <= batch.total
        return
    assert verdict.invalid == {hash_url(url) for url in batch.invalid}
    waiting = model.waiting_items(batch.job_id).keys()
    overlooked = (waiting & there.keys()) - {item.item_key for item in verdict.items}
    assert not overlooked, f"{len(overlooked)} items are there, and were taken to be missing"


def _check_result(result: StoredPage | Failure, ending: Ending | None) -> None:
    assert ending, "what still runs has an outcome"
    assert isinstance(result, StoredPage) == ending.is_paid
    if isinstance(result, Failure):
        can_help = ending in (Ending.RETRYABLE, Ending.OUT_OF_BALANCE)
        spends_attempt = ending is not Ending.OUT_OF_BALANCE
        assert (result.retryable, result.spends_attempt) == (can_help, spends_attempt)


def _check_absence(outcome: JobOutcome, policy: LifecyclePolicy, now: datetime) -> None:
    job, verdict = outcome.job, outcome.verdict
    if now - (job.missing_since or now) > timedelta(seconds=policy.lost_grace):
        assert isinstance(verdict, GivenUp)
        is_old = job.reported_at is not None and _is_past(job.reported_at, policy, now)
        assert verdict.code is (LetterCode.EXPIRED if is_old else LetterCode.LOST)
    else:
        assert isinstance(verdict, NotYet)
        assert verdict.is_missing


def _check_patience(outcome: JobOutcome, policy: LifecyclePolicy, now: datetime) -> None:
    if _is_past(outcome.job.accepted_at, policy, now):
        assert isinstance(outcome.verdict, GivenUp)
        assert outcome.verdict.code is LetterCode.TIMED_OUT
    else:
        assert isinstance(outcome.verdict, NotYet)
        assert not outcome.verdict.is_missing


def _check_doubt(
    outcome: JobOutcome, batch: MemoryBatch, client: MemoryClient, policy: LifecyclePolicy, now: datetime
) -> None:
    """A batch at rest is left for later only if a page could not be had, or is not what the counts promise."""
    is_short = batch.total > len(batch.shown)
    is_gone = client.answers[batch.job_id] == MISSING
    assert is_short or is_gone or batch.job_id in client.troubled, "nothing kept the results from being read"
    if isinstance(outcome.verdict, GivenUp):
        assert outcome.verdict.code is LetterCode.UNREADABLE
        assert _is_past(outcome.job.accepted_at, policy, now)
        assert client.has_failed or is_gone
    else:
        assert isinstance(outcome.verdict, NotYet)
        assert not outcome.verdict.is_missing


def _is_past(since: datetime, policy: LifecyclePolicy, now: datetime) -> bool:
    return now - since > timedelta(seconds=policy.job_timeout)
