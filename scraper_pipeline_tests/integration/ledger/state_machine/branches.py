"""Counts how often the branches are come to that batches add: a machine that misses one proves nothing of it."""

from collections import Counter
from collections.abc import Sequence

from scraper_pipeline.ledger import (
    ClaimedSubmission,
    Ended,
    GivenUp,
    JobOutcome,
    Kind,
    NotYet,
    Part,
    StoredPage,
)
from scraper_pipeline.lifecycle.bulk import DOUBTS
from scraper_pipeline_tests.integration.ledger.state_machine.claiming import Claim
from scraper_pipeline_tests.integration.ledger.state_machine.evidence import Evidence
from scraper_pipeline_tests.integration.ledger.state_machine.jobs import MemoryBatch
from scraper_pipeline_tests.integration.ledger.state_machine.model import Model

reached: Counter[str] = Counter()
OFTEN_REACHED = {
    "claimed: a batch of 3",
    "claimed: a row that goes into no batch",
    "lost answer: the batch is found",
    "lost answer: the best of several batches is taken",
    "settled: a part",
    "settled: a row whose item is missing",
    "settled: later, for a page was not to be had",
    "settled: the rest",
}


def reach(branch: str) -> None:
    reached[branch] += 1


def note_claim(claim: Claim, claimed: Sequence[ClaimedSubmission]) -> None:
    if not claimed:
        return
    if claimed[0].kind is Kind.BATCH:
        reach(f"claimed: a batch of {len(claimed)}")
        if claim.limit == 0:
            reach("claimed: a batch where no single page may be asked for")
    elif any(claim.due[one.target_id].kind is Kind.ALONE for one in claimed):
        reach("claimed: a row that goes into no batch")


def note_resolution(evidence: Evidence, request_id: str, job_id: str, changed: bool) -> None:
    request = evidence.overdue[request_id]
    if request.kind is not Kind.BATCH or not changed:
        return
    if job_id == "none":
        reach("lost answer: no batch was made")
        return
    batch = evidence.client.service.jobs[job_id]
    assert isinstance(batch, MemoryBatch)
    reach("lost answer: the batch is found")
    if len(batch.items) < len(request.urls):
        reach("lost answer: the batch found is smaller than what was sent")
    if batch.made_for is None:
        reach("lost answer: another program's batch is taken for ours")
    if len(evidence.choice(request).candidates) > 1:
        reach("lost answer: the best of several batches is taken")


def note_commit(outcomes: Sequence[JobOutcome], model: Model) -> None:
    """Called before the model knows of the commit."""
    for outcome in outcomes:
        if outcome.job.kind != Kind.BATCH:
            continue
        if not model.is_held(outcome.job):
            reach("settled: nothing, for another run holds the claim")
        elif isinstance(outcome.verdict, Part):
            reach(
                "settled: a part" if outcome.verdict.pages_read else "settled: read anew for what is missing"
            )
        elif isinstance(outcome.verdict, Ended):
            _note_end(outcome, outcome.verdict, model)
        elif isinstance(outcome.verdict, GivenUp):
            reach(f"settled: given up, {outcome.verdict.code}")
            if outcome.job.pages_read:
                reach("settled: given up half read")
        elif isinstance(outcome.verdict, NotYet) and not outcome.verdict.is_missing:
            reach(
                "settled: later" if outcome.verdict.status else "settled: later, for a page was not to be had"
            )


def _note_end(outcome: JobOutcome, verdict: Ended, model: Model) -> None:
    results = {item.item_key: item.result for item in verdict.items}
    pages = {key for key, result in results.items() if isinstance(result, StoredPage)}
    waiting = model.waiting_items(outcome.job.job_id).keys()
    reach("settled: the rest")
    if outcome.job.pages_read:
        reach("settled: the rest, from where another reading stopped")
    if pages and verdict.status != "completed":
        reach("settled: a page of a batch that was not completed")
    if results.keys() - pages and verdict.status == "completed":
        reach("settled: a failed item of a completed batch")
    if waiting & verdict.invalid:
        reach("settled: a row that was named invalid")
    if waiting - results.keys() - verdict.invalid:
        reach("settled: a row whose item is missing")
        if outcome.job.tries > DOUBTS:
            reach("settled: a row whose item is counted and never shown")
    for row in model.bound(outcome.job.job_id):
        if row.is_given_up:
            reach("settled: a page after all" if row.item_key in pages else "settled: a failure after all")
