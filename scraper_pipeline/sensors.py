"""The pump, which looks at what is due and asks for runs, the reader of the delivery log, and who publishes."""

import asyncio
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import dagster as dg

from scraper_pipeline.assets.figures import materialised_revision
from scraper_pipeline.assets.holding import HELD_LEASE, REFUSED_LEASE
from scraper_pipeline.assets.operations import delivery_figures, silence_check
from scraper_pipeline.assets.pages import pages
from scraper_pipeline.jobs import PUBLISHING, lists_config, settle_jobs, submit_jobs
from scraper_pipeline.ledger import Ledger, PendingPartition
from scraper_pipeline.lifecycle import (
    EVERYWHERE,
    RESOLUTION_SECONDS,
    SETTLE_LEASE,
    SUBMIT_LEASE,
    DeliveryLogReport,
    pages_left,
    poll_jobs,
    read_delivery_log,
    resolve_lost_answers,
)
from scraper_pipeline.partitions import DAYS
from scraper_pipeline.resources import LedgerResource, ScraperResource, explained_failures, traced_tick
from scraper_pipeline.scraper_api import ScraperError

TICK_SECONDS = 15.0  # in which a tick begins listing calls; Dagster's own limit is 60
LOOK_SECONDS = 30.0  # after which a tick fails that still waits for an answer
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
    with traced_tick("job_status_sensor"), explained_failures(), ledger.open() as book:
        is_open = book.progress.has_open_targets()
        if is_open:
            asyncio.run(_look(book, scraper))
        green = _read_cursor(context.cursor)
        queued = _queued(context.instance)
        used_up = pages_left(book, scraper.policy()).used_up if is_open else None
        is_refused = EVERYWHERE in book.leases.live(REFUSED_LEASE)
        requests = [] if used_up or is_refused else list(_submissions(book, queued))
        requests += _settlements(book, queued)
        asked = {(request.job_name, request.partition_key) for request in requests}
        requests += [
            request
            for request in _conclusions(context.instance, book, green)
            if (request.job_name, request.partition_key) not in asked | queued
        ]
        problem = _resolve(book, scraper)
        if problem and not requests:
            raise dg.Failure(problem)
    if is_refused and not requests:
        return dg.SkipReason(
            "The service refused the account (key or balance) minutes ago: nothing is submitted for now, and "
            "nothing is lost. Launch submit_jobs once that is mended, or wait."
        )
    if problem:  # what can be done without these rows goes on
        context.log.error(problem)
    waits = f"{used_up} is used up: what is planned waits, and nothing is lost." if used_up else None
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else waits,
        cursor=json.dumps(green, sort_keys=True),
    )


async def _look(ledger: Ledger, scraper: ScraperResource) -> None:
    try:
        async with asyncio.timeout(LOOK_SECONDS), scraper.open_client() as client:
            await poll_jobs(ledger, client, scraper.policy(), seconds=TICK_SECONDS)
    except TimeoutError:
        raise dg.Failure(
            f"The service did not answer within {LOOK_SECONDS:g} s; check GEONODE_SCRAPER_HOST if it stays so. Nothing "
            "is lost: the ledger holds what is to be done, and the next tick takes it up."
        ) from None


def _resolve(ledger: Ledger, scraper: ScraperResource) -> str | None:
    """Resolve lost answers; returns why that could not be done, which concerns no other target."""
    policy = scraper.policy()
    if not ledger.submissions.overdue(policy.send_grace):
        return None

    async def resolve() -> None:
        async with asyncio.timeout(RESOLUTION_SECONDS + 5), scraper.open_client() as client:
            await resolve_lost_answers(ledger, client, policy, seconds=RESOLUTION_SECONDS)

    try:
        asyncio.run(resolve())
    except (ScraperError, TimeoutError) as error:
        reason = str(error) or "the service did not answer in time"
        return f"Lost answers could not be resolved: {reason}. They are looked up again at the next tick."
    return None


def _queued(instance: dg.DagsterInstance) -> set[tuple[str | None, str | None]]:
    """The jobs and days that a run waits in the queue for: to ask again would only make the queue longer."""
    runs = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED]), limit=1000)
    return {(run.job_name, run.tags.get("dagster/partition")) for run in runs}


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


def _submissions(ledger: Ledger, queued: set[tuple[str | None, str | None]]) -> Iterator[dg.RunRequest]:
    busy = ledger.leases.live(SUBMIT_LEASE) | ledger.leases.live(HELD_LEASE)
    for pending in _days_of_dagster(ledger.progress.partitions_to_submit()):
        if pending.partition_key not in busy and (submit_jobs.name, pending.partition_key) not in queued:
            yield _ask(ledger, submit_jobs.name, SUBMIT_LEASE, pending)


def _settlements(ledger: Ledger, queued: set[tuple[str | None, str | None]]) -> Iterator[dg.RunRequest]:
    busy = ledger.leases.live(SETTLE_LEASE)
    for pending in _days_of_dagster(ledger.progress.partitions_to_settle()):
        if pending.partition_key not in busy and (settle_jobs.name, pending.partition_key) not in queued:
            yield _ask(ledger, settle_jobs.name, SETTLE_LEASE, pending)


def _days_of_dagster(pending: Iterable[PendingPartition]) -> Iterator[PendingPartition]:
    """Those days that Dagster knows: a run for any other would fail the whole tick. The sweep settles them."""
    return (one for one in pending if DAYS.has_partition_key(one.partition_key))


def _ask(ledger: Ledger, job_name: str, lease: str, pending: PendingPartition) -> dg.RunRequest:
    """A run for this work, under a key that another tick repeats only while the work and the time are the same."""
    run_key = _run_key(job_name, pending.partition_key, pending.watermark, ledger.clock())
    ledger.leases.take(lease, pending.partition_key, run_key, REQUEST_LEASE_SECONDS)
    is_submission = job_name == submit_jobs.name
    lists = _lists_to_plan(ledger, pending.partition_key) if is_submission else []
    return dg.RunRequest(
        run_key=run_key,
        job_name=job_name,
        partition_key=pending.partition_key,
        asset_selection=[dg.AssetKey("submitted_jobs")] if is_submission and not lists else None,
        run_config=lists_config(lists) if lists else None,
    )


def _lists_to_plan(ledger: Ledger, day: str) -> list[str]:
    """The lists whose planning for this day was broken off.

    A list that was planned whole is not planned again: it may have been edited since, for another day. Nor is one that
    cannot be read, as long as another list's targets would wait for it.
    """
    unfinished = ledger.lists.unfinished(day)
    is_planned = bool(unfinished) and ledger.progress.is_planned(day)
    return [one.name for one in unfinished if not (one.has_failed and is_planned)]


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
                yield _ask(ledger, job_name, lease, PendingPartition(day, 0, f"conclude-{revision}"))


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Reads the delivery log of every webhook of ours, makes news of what was refused or abandoned, and reports the "
        "asset delivery_log with its check. Idle while no webhook is registered."
    ),
)
def delivery_log_sensor(
    context: dg.SensorEvaluationContext, ledger: LedgerResource, scraper: ScraperResource
) -> dg.SensorResult | dg.SkipReason:
    with traced_tick("delivery_log_sensor"), explained_failures(), ledger.open() as book:
        webhooks = book.webhooks.registered()
        if not webhooks:
            return dg.SkipReason("No webhook is registered: news comes by polling.")
        report = asyncio.run(_read_log(book, scraper))
        metadata = {
            "webhooks": len(webhooks),
            "new_attempts": report.new_attempts,
            "replayed": report.replayed,
            "gone": report.gone,
            **delivery_figures(book),
        }
        check = silence_check(book)
    return dg.SensorResult(
        asset_events=[
            dg.AssetMaterialization("delivery_log", metadata=metadata),
            dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey("delivery_log"),
                check_name="webhooks_deliver",
                passed=check.passed,
                severity=check.severity,
                metadata=check.metadata,
            ),
        ]
    )


async def _read_log(ledger: Ledger, scraper: ScraperResource) -> DeliveryLogReport:
    try:
        async with asyncio.timeout(LOOK_SECONDS), scraper.open_client() as client:
            return await read_delivery_log(ledger, client)
    except TimeoutError:
        raise dg.Failure(
            f"The delivery log was not read within {LOOK_SECONDS:g} s; check GEONODE_SCRAPER_HOST if it stays so. "
            "Nothing is lost: what was read is kept, polling goes on, and the next tick reads on."
        ) from None


# Named, because the one that Dagster makes of itself is off until somebody switches it on.
publication_sensor = dg.AutomationConditionSensorDefinition(
    "publication_sensor",
    target=dg.AssetSelection.assets(pages),
    default_status=dg.DefaultSensorStatus.RUNNING,
    run_tags=PUBLISHING,
    description=(
        "Publishes the pages of each day that is done, again when late results came, and again half an hour after a "
        "publication failed. It asks for runs of the asset pages; days that are not done it leaves alone."
    ),
)
