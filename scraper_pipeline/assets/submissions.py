"""The asset ``submitted_jobs``: what a day has handed to the service."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial

import dagster as dg
from pydantic import Field

from scraper_pipeline.assets.figures import submission_figures
from scraper_pipeline.assets.targets import OWNERS, targets
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.lifecycle import (
    EVERYWHERE,
    RESOLUTION_SECONDS,
    SUBMIT_LEASE,
    LifecyclePolicy,
    SubmissionReport,
    resolve_lost_answers,
    resubmit_targets,
    stops_account,
    submit_jobs,
)
from scraper_pipeline.partitions import DAYS
from scraper_pipeline.resources import LedgerResource, ScraperResource, explained_failures
from scraper_pipeline.scraper_api import ScraperClient, ScraperError, Throttled

POOL = "geonode_scraper_api"
REFUSED_LEASE = "refused"
REFUSED_SECONDS = 600.0


class Resubmit(Enum):
    """Which settled targets are submitted once more, and paid once more."""

    none = "none"
    failed = "failed"
    all = "all"


class SubmissionConfig(dg.Config):
    """How a submit run differs from the ordinary one, which submits what is planned and nothing else."""

    resubmit: Resubmit = Field(
        default=Resubmit.none,
        description="Submit settled targets again: failed ones, or all. Every page is paid again.",
    )
    max_pages: int | None = Field(
        default=None, description="The most targets that `resubmit` takes, over all days of the run."
    )


@dg.asset(
    partitions_def=DAYS,
    deps=[targets],
    group_name="jobs",
    owners=OWNERS,
    kinds={"geonode"},
    pool=POOL,
    io_manager_key="idempotency_io_manager",
    output_required=False,
    description=(
        "The jobs of a day: each planned target is submitted once, its intent written down before. Green when the "
        "service has taken every target or refused it for good. A target whose answer was lost is looked up after a "
        "grace and never sent blindly again; until then the day stays as it was, and the job status sensor asks for "
        "the next run. Running it again submits nothing that was submitted."
    ),
)
def submitted_jobs(
    context: dg.AssetExecutionContext,
    config: SubmissionConfig,
    ledger: LedgerResource,
    scraper: ScraperResource,
) -> Iterator[dg.MaterializeResult[None]]:
    if config.max_pages is not None and config.resubmit is Resubmit.none:
        raise dg.Failure(
            "`max_pages` goes with `resubmit`: what is planned is submitted in any case, by this run or the next. "
            "To bound what a day costs, set SCRAPER_DAILY_PAGE_LIMIT.",
            allow_retries=False,
        )
    days, policy = list(context.partition_keys), scraper.policy()
    with explained_failures(), ledger.open() as book:
        with pausing_after_refusals(book):
            report = asyncio.run(_submit_days(context, book, scraper.open_client(), days, policy, config))
        if report.limited:
            context.log.warning("A page limit was reached: the rest stays planned.")
        if report.errors:
            context.log.warning(f"Answers that were no acceptance: {dict(report.errors)}")
        figures = {day: submission_figures(book, day) for day in days}
    if all(day["planned"] == 0 and day["sending"] == 0 for day in figures.values()):
        for day, shown in figures.items():
            context.add_asset_metadata(shown, asset_key="submitted_jobs", partition_key=day)
        yield dg.MaterializeResult()
        return
    waiting = sum(shown["planned"] + shown["sending"] for shown in figures.values())
    context.log.warning(
        f"{waiting} targets are not with the service yet: what follows in this run is skipped, and the job status "
        "sensor asks for the next runs. What is accepted is settled by settle_jobs all the same."
    )
    for day, shown in figures.items():
        event = dg.AssetObservation if shown["planned"] or shown["sending"] else dg.AssetMaterialization
        context.log_event(event("submitted_jobs", partition=day, metadata=shown))


@contextmanager
def pausing_after_refusals(ledger: Ledger) -> Iterator[None]:
    """Keep the sensor from asking for more submissions for a while after the account was refused, as by 401 or 402."""
    try:
        yield
    except ScraperError as error:
        if stops_account(error):
            ledger.leases.take(REFUSED_LEASE, EVERYWHERE, REFUSED_LEASE, REFUSED_SECONDS, force=True)
        raise
    ledger.leases.drop(REFUSED_LEASE, EVERYWHERE, REFUSED_LEASE)


async def _submit_days(
    context: dg.AssetExecutionContext,
    ledger: Ledger,
    client: ScraperClient,
    days: list[str],
    policy: LifecyclePolicy,
    config: SubmissionConfig,
) -> SubmissionReport:
    total, holder = SubmissionReport(), uuid.uuid4().hex
    async with client:
        await _resolve(context, ledger, client, policy)
        room = config.max_pages
        for day in days:
            ledger.leases.take(SUBMIT_LEASE, day, holder, policy.run_lease, force=True)
            try:
                if config.resubmit is not Resubmit.none:
                    again = await resubmit_targets(ledger, client, day, config.resubmit.value, room)
                    room = None if room is None else room - again.planned
                    context.log.info(f"{day}: {again.planned} targets are planned again.")
                total += await submit_jobs(
                    ledger,
                    client,
                    day,
                    policy,
                    seconds=policy.drain,
                    on_chunk=partial(_show_chunk, context, ledger, policy, day, holder),
                )
            finally:
                ledger.leases.drop(SUBMIT_LEASE, day, holder)
        requests = sum(client.requests_made.values())
    context.log.info(f"{total.accepted} accepted, {total.refused} refused, with {requests} requests.")
    return total


async def _resolve(
    context: dg.AssetExecutionContext, ledger: Ledger, client: ScraperClient, policy: LifecyclePolicy
) -> None:
    """Resolve lost answers first, for what is planned again goes out with the rest; the rest waits for no listing."""
    try:
        await resolve_lost_answers(ledger, client, policy, seconds=RESOLUTION_SECONDS)
    except ScraperError as error:
        if error.scope == "account" and not isinstance(error, Throttled):
            raise
        context.log.warning(f"Lost answers could not be resolved: {error}")


def _show_chunk(
    context: dg.AssetExecutionContext,
    ledger: Ledger,
    policy: LifecyclePolicy,
    day: str,
    holder: str,
    report: SubmissionReport,
) -> None:
    ledger.leases.take(SUBMIT_LEASE, day, holder, policy.run_lease, force=True)
    context.log.info(f"{day}: {report.accepted} accepted so far.")
