"""The runs that the ledger asks for: each serves all accounts of a day."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import dagster as dg

from scraper_pipeline.accounts import Accounts, OpenAccount
from scraper_pipeline.assets.figures import materialised_revision
from scraper_pipeline.jobs import lists_config, settle_jobs, submit_jobs
from scraper_pipeline.ledger import PendingPartition
from scraper_pipeline.lifecycle import HELD_LEASE, SETTLE_LEASE, SUBMIT_LEASE
from scraper_pipeline.partitions import DAYS

BUCKET_SECONDS = 120  # the same work can be asked for again after that, should its run have failed
REQUEST_LEASE_SECONDS = 90.0  # how long a run that was asked for may take to start
WATCHED_DAYS = 400
Queued = set[tuple[str | None, str | None]]
"""Jobs and days that a run waits in the queue for."""


def submissions_asked_for(
    accounts: Accounts, may_send: Iterable[OpenAccount], queued: Queued
) -> Iterator[dg.RunRequest]:
    """Submit runs for the days that some of these accounts have due rows of."""
    busy = accounts.ledger.leases.live(SUBMIT_LEASE)
    found: dict[str, list[PendingPartition]] = {}
    for account in may_send:
        held = account.ledger.leases.live(HELD_LEASE)
        for pending in account.ledger.progress.partitions_to_submit():
            if pending.partition_key not in held:
                found.setdefault(pending.partition_key, []).append(pending)
    for pending in _days_of_dagster(_together(found)):
        if pending.partition_key not in busy and (submit_jobs.name, pending.partition_key) not in queued:
            yield _ask(accounts, submit_jobs.name, SUBMIT_LEASE, pending)


def settlements_asked_for(
    accounts: Accounts, reachable: Iterable[OpenAccount], queued: Queued
) -> Iterator[dg.RunRequest]:
    """Settle runs for the days that some of these accounts have news of."""
    busy = accounts.ledger.leases.live(SETTLE_LEASE)
    found: dict[str, list[PendingPartition]] = {}
    for account in reachable:
        for pending in account.ledger.progress.partitions_to_settle():
            found.setdefault(pending.partition_key, []).append(pending)
    for pending in _days_of_dagster(_together(found)):
        if pending.partition_key not in busy and (settle_jobs.name, pending.partition_key) not in queued:
            yield _ask(accounts, settle_jobs.name, SETTLE_LEASE, pending)


def _together(found: Mapping[str, Sequence[PendingPartition]]) -> Iterator[PendingPartition]:
    """What accounts have pending of each day, as one: a run works for all of them."""
    for day, pending in sorted(found.items()):
        yield PendingPartition(
            day, sum(one.pending for one in pending), "-".join(one.watermark for one in pending)
        )


def _days_of_dagster(pending: Iterable[PendingPartition]) -> Iterator[PendingPartition]:
    """Those days that Dagster knows: a run for any other would fail the whole tick. The sweep settles them."""
    return (one for one in pending if DAYS.has_partition_key(one.partition_key))


def _ask(accounts: Accounts, job_name: str, lease: str, pending: PendingPartition) -> dg.RunRequest:
    """A run for this work, under a key that another tick repeats only while the work and the time are the same."""
    ledger = accounts.first.ledger
    run_key = _run_key(job_name, pending.partition_key, pending.watermark, ledger.clock())
    ledger.leases.take(lease, pending.partition_key, run_key, REQUEST_LEASE_SECONDS)
    is_submission = job_name == submit_jobs.name
    lists = _lists_to_plan(accounts, pending.partition_key) if is_submission else []
    return dg.RunRequest(
        run_key=run_key,
        job_name=job_name,
        partition_key=pending.partition_key,
        asset_selection=[dg.AssetKey("submitted_jobs")] if is_submission and not lists else None,
        run_config=lists_config(lists) if lists else None,
    )


def _lists_to_plan(accounts: Accounts, day: str) -> list[str]:
    """The lists of these accounts whose planning for this day was broken off.

    A list that was planned whole is not planned again: it may have been edited since, for another day. Nor is one that
    cannot be read, as long as another list's targets would wait for it.
    """
    unfinished = [one for account in accounts for one in account.ledger.lists.unfinished(day)]
    is_planned = bool(unfinished) and accounts.ledger.progress.is_planned(day)
    return list(dict.fromkeys(one.name for one in unfinished if not (one.has_failed and is_planned)))


def _run_key(job_name: str, partition_key: str, watermark: str, now: datetime) -> str:
    bucket = int(now.timestamp() // BUCKET_SECONDS)
    digest = hashlib.sha256(f"{watermark}|{bucket}".encode()).hexdigest()[:16]
    return f"{job_name}:{partition_key}:{digest}"


def conclusions_asked_for(
    instance: dg.DagsterInstance, accounts: Accounts, green: dict[str, dict[str, int]]
) -> Iterator[dg.RunRequest]:
    """Runs for days that are done in the ledger but not green in Dagster, say because a run was killed at its end."""
    ledger = accounts.ledger
    leases: Mapping[str, tuple[str, str]] = {
        submit_jobs.name: (SUBMIT_LEASE, "submitted_jobs"),
        settle_jobs.name: (SETTLE_LEASE, "stored_results"),
    }
    live = {lease: ledger.leases.live(lease) for lease, _ in leases.values()}
    for changed in ledger.progress.revisions(WATCHED_DAYS):
        day, revision = changed.partition_key, changed.revision
        pale = [job_name for job_name in leases if green[job_name].get(day) != revision]
        if not pale or not DAYS.has_partition_key(day):
            continue
        progress = ledger.progress.of(day)
        for job_name in pale:
            lease, asset = leases[job_name]
            is_done = progress.is_settled if job_name == settle_jobs.name else progress.is_accepted
            if not is_done or day in live[lease]:
                continue
            if materialised_revision(instance, asset, day) >= (
                revision if job_name == settle_jobs.name else 1
            ):
                green[job_name][day] = revision
            else:
                yield _ask(accounts, job_name, lease, PendingPartition(day, 0, f"conclude-{revision}"))
