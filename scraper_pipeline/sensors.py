"""The pump: it looks at what is due, and asks for the runs that the ledger has work for."""

import asyncio
import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime

import dagster as dg

from scraper_pipeline.jobs import settle_jobs, submit_jobs
from scraper_pipeline.ledger import Ledger, PendingPartition
from scraper_pipeline.lifecycle import (
    SETTLE_LEASE,
    SUBMIT_LEASE,
    poll_jobs,
    resolve_lost_answers,
)
from scraper_pipeline.resources import LedgerResource, ScraperResource, explained_failures

TICK_SECONDS = 20.0  # for the listing calls of a tick; Dagster's own limit is 60
BUCKET_SECONDS = 120  # the same work can be asked for again after that, should its run have failed
REQUEST_LEASE_SECONDS = 90.0  # how long a run that was asked for may take to start
WATCHED_DAYS = 400


@dg.sensor(
    jobs=[submit_jobs, settle_jobs],
    minimum_interval_seconds=5,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Polls the jobs whose look is due, and asks for submit and settle runs. It decides from the ledger alone: its "
        "cursor only remembers which days are already green. When the service can't be reached its ticks fail; "
        "nothing is lost by that."
    ),
)
def job_status_sensor(
    context: dg.SensorEvaluationContext, ledger: LedgerResource, scraper: ScraperResource
) -> dg.SensorResult | dg.SkipReason:
    with explained_failures(), ledger.open() as book:
        if book.progress.has_open_targets():
            asyncio.run(_look(book, scraper))
        green = _read_cursor(context.cursor)
        requests = list(_submissions(book)) + list(_settlements(book))
        asked = {(request.job_name, request.partition_key) for request in requests}
        requests += [
            request
            for request in _conclusions(context.instance, book, green)
            if (request.job_name, request.partition_key) not in asked
        ]
    return dg.SensorResult(run_requests=requests, cursor=json.dumps(green, sort_keys=True))


async def _look(ledger: Ledger, scraper: ScraperResource) -> None:
    policy = scraper.policy()
    async with scraper.open_client() as client:
        await resolve_lost_answers(ledger, client, policy, seconds=TICK_SECONDS)
        await poll_jobs(ledger, client, policy, seconds=TICK_SECONDS)


def _read_cursor(cursor: str | None) -> dict[str, dict[str, int]]:
    """The revision at which each job's assets of a day were seen materialised; an unreadable cursor knows nothing."""
    try:
        known = json.loads(cursor or "{}")
        return {
            job: {str(day): int(revision) for day, revision in known.get(job, {}).items()}
            for job in (submit_jobs.name, settle_jobs.name)
        }
    except (ValueError, TypeError, AttributeError):
        return {submit_jobs.name: {}, settle_jobs.name: {}}


def _submissions(ledger: Ledger) -> Iterator[dg.RunRequest]:
    busy = ledger.leases.live(SUBMIT_LEASE)
    for pending in ledger.progress.partitions_to_submit():
        if pending.partition_key not in busy:
            yield _ask(ledger, submit_jobs.name, SUBMIT_LEASE, pending)


def _settlements(ledger: Ledger) -> Iterator[dg.RunRequest]:
    busy = ledger.leases.live(SETTLE_LEASE)
    for pending in ledger.progress.partitions_to_settle():
        if pending.partition_key not in busy:
            yield _ask(ledger, settle_jobs.name, SETTLE_LEASE, pending)


def _ask(ledger: Ledger, job_name: str, lease: str, pending: PendingPartition) -> dg.RunRequest:
    """A run for this work, under a key that another tick repeats only while the work and the time are the same."""
    run_key = _run_key(job_name, pending.partition_key, pending.watermark, ledger.clock())
    ledger.leases.take(lease, pending.partition_key, run_key, REQUEST_LEASE_SECONDS)
    return dg.RunRequest(run_key=run_key, job_name=job_name, partition_key=pending.partition_key)


def _run_key(job_name: str, partition_key: str, watermark: str, now: datetime) -> str:
    bucket = int(now.timestamp() // BUCKET_SECONDS)
    digest = hashlib.sha256(f"{watermark}|{bucket}".encode()).hexdigest()[:16]
    return f"{job_name}:{partition_key}:{digest}"


def _conclusions(
    instance: dg.DagsterInstance, ledger: Ledger, green: dict[str, dict[str, int]]
) -> Iterator[dg.RunRequest]:
    """Runs for days that are done in the ledger but not green in Dagster, say because a run was killed at its end."""
    leases: Mapping[str, tuple[str, str]] = {
        submit_jobs.name: (SUBMIT_LEASE, "submitted_jobs"),
        settle_jobs.name: (SETTLE_LEASE, "stored_results"),
    }
    for changed in ledger.progress.revisions(WATCHED_DAYS):
        day, revision = changed.partition_key, changed.revision
        for job_name, (lease, asset) in leases.items():
            if green[job_name].get(day) == revision:
                continue
            progress = ledger.progress.of(day)
            is_done = progress.is_settled if job_name == settle_jobs.name else progress.is_accepted
            if not is_done or day in ledger.leases.live(lease):
                continue
            if _materialised_revision(instance, asset, day) >= (
                revision if job_name == settle_jobs.name else 1
            ):
                green[job_name][day] = revision
            else:
                yield _ask(ledger, job_name, lease, PendingPartition(day, 0, f"conclude-{revision}"))


def _materialised_revision(instance: dg.DagsterInstance, asset: str, day: str) -> int:
    """The ledger's revision that the newest materialisation of the day shows; 0 if there is none."""
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[day]), limit=1
    ).records
    materialization = records[0].asset_materialization if records else None
    shown = materialization.metadata.get("ledger_revision") if materialization else None
    return int(str(shown.value)) if shown is not None else 0
