"""Rule 7: an operator has settled targets submitted again; jobs that were given up are asked first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scraper_pipeline.ledger import Channel, Kind, Ledger, SettledTarget, Which
from scraper_pipeline.scraper_api import (
    Batch,
    Crawl,
    Job,
    JobExpired,
    JobNotFound,
    ScraperClient,
    ScraperError,
)


@dataclass
class ResubmissionReport:
    """What became of the targets asked for: planned again, refused while their job runs, or settled instead.

    ``pages`` is the most that the planned ones may cost; ``beyond`` counts those that the limit had no room for,
    ``resolved`` the letters that stood no more.
    """

    planned: int = 0
    running: int = 0
    settled: int = 0
    pages: int = 0
    beyond: int = 0
    resolved: int = 0

    def __iadd__(self, other: "ResubmissionReport") -> "ResubmissionReport":
        for name, count in other.__dict__.items():
            setattr(self, name, getattr(self, name) + count)
        return self


async def resubmit_targets(
    ledger: Ledger, client: ScraperClient, partition_key: str, which: Which, max_pages: int | None = None
) -> ResubmissionReport:
    """Plan a partition's dead targets ("failed"), or all settled ones, once more, for ``max_pages`` at most.

    A target whose job can't be asked about counts as running. Raises the ScraperError of the account.
    """
    return await _resubmit(
        ledger, client, ledger.resubmissions.settled_targets(partition_key, which), max_pages
    )


async def retry_letters(
    ledger: Ledger, client: ScraperClient, letter_ids: Iterable[int], max_pages: int | None = None
) -> ResubmissionReport:
    """Plan the targets of these dead letters once more, of whatever day, discarded ones included, in the same way."""
    chosen = set(letter_ids)
    targets = ledger.resubmissions.parked_targets(sorted(chosen))
    report = await _resubmit(ledger, client, targets, max_pages)
    report.resolved = len(chosen) - len(targets)
    return report


async def _resubmit(
    ledger: Ledger, client: ScraperClient, targets: Sequence[SettledTarget], max_pages: int | None
) -> ResubmissionReport:
    report = ResubmissionReport()
    free: list[SettledTarget] = []
    fates: dict[str, str] = {}  # one answer serves all rows of a batch
    for target in targets:
        if max_pages is not None and report.pages + target.most_pages > max_pages:
            report.beyond += 1
            continue
        fate = "over"
        if target.given_up and target.job_id:
            if target.job_id not in fates:
                fates[target.job_id] = await _fate_of_given_up(client, target.kind, target.job_id)
            fate = fates[target.job_id]
        if fate == "over":
            free.append(target)
            report.pages += target.most_pages
        elif fate == "completed":
            report.settled += 1
            ledger.news.record([target.job_id or ""], Channel.POLL)
        else:
            report.running += 1
    report.planned = ledger.resubmissions.resubmit(free)
    return report


async def _fate_of_given_up(client: ScraperClient, kind: Kind, job_id: str) -> str:
    """What became of a job that was given up: over, completed, running, or unknown, which counts as running."""
    job: Job | Batch | Crawl
    try:
        if kind is Kind.BATCH:
            job = await client.look_at_batch(job_id)
        elif kind is Kind.CRAWL:
            job = await client.look_at_crawl(job_id)
        else:
            job = await client.get_job(job_id)
    except (JobNotFound, JobExpired):
        return "over"
    except ScraperError as error:
        if error.scope == "account":
            raise
        return "unknown"
    if not (job.is_terminal if isinstance(job, Job) else job.is_at_rest):
        return "running"
    # Of a batch the items decide: as long as its results can be had, they are settled instead of paid again.
    return "completed" if job.status == "completed" or not isinstance(job, Job) else "over"
