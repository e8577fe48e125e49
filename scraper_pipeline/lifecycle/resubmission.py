"""Rule 7: an operator has settled targets submitted again; jobs that were given up are asked first."""

from dataclasses import dataclass

from scraper_pipeline.ledger import Channel, Ledger, SettledTarget, Which
from scraper_pipeline.scraper_api import JobExpired, JobNotFound, ScraperClient


@dataclass
class ResubmissionReport:
    """What became of the targets asked for: planned again, refused while their job runs, or settled instead."""

    planned: int = 0
    running: int = 0
    settled: int = 0


async def resubmit_targets(
    ledger: Ledger, client: ScraperClient, partition_key: str, which: Which, limit: int | None = None
) -> ResubmissionReport:
    """Plan a partition's dead targets ("failed"), or all settled ones, once more. Raises ScraperError."""
    report = ResubmissionReport()
    free: list[SettledTarget] = []
    for target in ledger.resubmissions.settled_targets(partition_key, which, limit):
        fate = await _fate_of_given_up(client, target) if target.given_up and target.job_id else "over"
        if fate == "over":
            free.append(target)
        elif fate == "running":
            report.running += 1
        else:
            report.settled += 1
            ledger.news.record([target.job_id or ""], Channel.POLL)
    report.planned = ledger.resubmissions.resubmit(free)
    return report


async def _fate_of_given_up(client: ScraperClient, target: SettledTarget) -> str:
    try:
        job = await client.get_job(target.job_id or "")
    except (JobNotFound, JobExpired):
        return "over"
    if not job.is_terminal:
        return "running"
    return "completed" if job.status == "completed" else "over"
