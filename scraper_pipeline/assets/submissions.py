"""The asset ``submitted_jobs``: what a day has handed to the service."""

import asyncio
import uuid
from collections.abc import Iterator
from enum import Enum
from functools import partial
from time import monotonic

import dagster as dg
from pydantic import Field

from scraper_pipeline.assets.figures import submission_figures
from scraper_pipeline.assets.holding import HELD_LEASE, hold_days, pausing_after_refusals, show_what_waits
from scraper_pipeline.assets.targets import OWNERS, targets
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.lifecycle import (
    RESOLUTION_SECONDS,
    SUBMIT_LEASE,
    Bound,
    LifecyclePolicy,
    Places,
    SubmissionReport,
    pages_left,
    resolve_lost_answers,
    resubmit_targets,
    submit_jobs,
)
from scraper_pipeline.partitions import DAYS, ONE_RUN
from scraper_pipeline.resources import LedgerResource, ScraperResource, explained_failures, traced_step
from scraper_pipeline.scraper_api import ScraperClient, ScraperError, Throttled

POOL = "geonode_scraper_api"
_SENSOR_TAG = "dagster/sensor_name"  # Dagster's own, on each run that a sensor asked for


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
        default=None,
        ge=0,
        description=(
            "The most pages that this run may cost, over all of its days; a crawl counts with its limit. What is "
            "beyond stays planned until somebody launches submit_jobs for the day again: the sensor and the sweep "
            "leave it alone. With `resubmit` no more than that is planned again."
        ),
    )


@dg.asset(
    partitions_def=DAYS,
    backfill_policy=ONE_RUN,
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
        "the next run. Running it again submits nothing that was submitted. What the page limits or `max_pages` have "
        "no room for stays planned, and the check `nothing_waits` says so."
    ),
)
def submitted_jobs(
    context: dg.AssetExecutionContext,
    config: SubmissionConfig,
    ledger: LedgerResource,
    scraper: ScraperResource,
) -> Iterator[dg.MaterializeResult[None]]:
    days, policy = list(context.partition_keys), scraper.policy()
    with traced_step(context, "submitted_jobs"), explained_failures(), ledger.open() as book:
        with pausing_after_refusals(context, book, policy):
            report = asyncio.run(_submit_days(context, book, scraper.open_client(), days, policy, config))
        _tell(context, report)
        left = pages_left(book, policy)
        figures = {day: submission_figures(book, day, left) for day in days}
        show_what_waits(context, book, policy)
    if all(day["planned"] == 0 and day["sending"] == 0 for day in figures.values()):
        for day, shown in figures.items():
            context.add_asset_metadata(shown, asset_key="submitted_jobs", partition_key=day)
        yield dg.MaterializeResult()
        return
    waiting = sum(shown["planned"] + shown["sending"] for shown in figures.values())
    context.log.warning(
        f"{waiting} targets are not with the service yet: what follows in this run is skipped. "
        + (
            "Launch submit_jobs again for what `max_pages` left planned. "
            if config.max_pages is not None
            else "The job status sensor asks for the next runs. "
        )
        + "What is accepted is settled by settle_jobs all the same."
    )
    for day, shown in figures.items():
        event = dg.AssetObservation if shown["planned"] or shown["sending"] else dg.AssetMaterialization
        context.log_event(event("submitted_jobs", partition=day, metadata=shown))


def _tell(context: dg.AssetExecutionContext, report: SubmissionReport) -> None:
    """Say in the run's log what was out of the ordinary."""
    if report.held_by:
        context.log.warning(f"The rest stays planned, held by {', '.join(sorted(report.held_by))}.")
    if report.unbounded_because:
        context.log.warning(
            "Single jobs were sent without regard to the account's limit of work at once, for the service did not "
            f"tell it: {report.unbounded_because}"
        )
    if report.errors:
        context.log.warning(f"Answers that were no acceptance: {dict(report.errors)}")


async def _submit_days(
    context: dg.AssetExecutionContext,
    ledger: Ledger,
    client: ScraperClient,
    days: list[str],
    policy: LifecyclePolicy,
    config: SubmissionConfig,
) -> SubmissionReport:
    total, again, holder, began = SubmissionReport(), 0, uuid.uuid4().hex, monotonic()
    async with client:
        await _resolve(context, ledger, client, policy)
        places = Places.of(client, policy)
        for day in _unless_held(context, ledger, days, config):
            ledger.leases.take(SUBMIT_LEASE, day, holder, policy.run_lease, force=True)
            try:
                again += await _resubmit(context, ledger, client, day, config, again)
                _tell_the_cost(context, ledger, policy, day, config, total)
                total += await submit_jobs(
                    ledger,
                    client,
                    day,
                    policy,
                    max_pages=None if config.max_pages is None else config.max_pages - total.pages,
                    seconds=max(0.0, policy.drain - (monotonic() - began)),
                    places=places,
                    on_chunk=partial(_show_chunk, context, ledger, policy, day, holder),
                )
            finally:
                ledger.leases.drop(SUBMIT_LEASE, day, holder)
            if not ledger.progress.of(day).planned:
                ledger.leases.drop(HELD_LEASE, day, HELD_LEASE)
        requests = sum(client.requests_made.values())
    context.log.info(
        f"{total.accepted} accepted, {total.refused} refused, for at most {total.pages} pages, "
        f"with {requests} requests."
    )
    return total


def _unless_held(
    context: dg.AssetExecutionContext, ledger: Ledger, days: list[str], config: SubmissionConfig
) -> list[str]:
    """The days that this run may submit: a run of the sensor's none that an operator's ``max_pages`` has held."""
    if config.max_pages is not None:
        hold_days(ledger, days)
        return days
    if _SENSOR_TAG not in context.run.tags:
        for day in days:
            ledger.leases.drop(HELD_LEASE, day, HELD_LEASE)
        return days
    held = ledger.leases.live(HELD_LEASE).intersection(days)
    if held:
        context.log.warning(
            f"What `max_pages` of an earlier run left planned waits for a launch: {', '.join(sorted(held))}."
        )
    return [day for day in days if day not in held]


async def _resubmit(
    context: dg.AssetExecutionContext,
    ledger: Ledger,
    client: ScraperClient,
    day: str,
    config: SubmissionConfig,
    planned_before: int,
) -> int:
    """Plan settled targets again; returns the most pages that they may cost."""
    if config.resubmit is Resubmit.none:
        return 0
    room = None if config.max_pages is None else config.max_pages - planned_before
    again = await resubmit_targets(ledger, client, day, config.resubmit.value, room)
    context.log.info(f"{day}: {again.planned} targets are planned again, for at most {again.pages} pages.")
    if again.planned and ledger.retention.pruned([day]):
        context.log.warning(
            f"{day}: content was pruned, so the published file of the day stays as it was made before; what comes now "
            "is in the ledger alone."
        )
    if again.beyond:
        context.log.warning(f"{day}: {again.beyond} targets more are left as they are, for `max_pages`.")
    return again.pages


def _tell_the_cost(
    context: dg.AssetExecutionContext,
    ledger: Ledger,
    policy: LifecyclePolicy,
    day: str,
    config: SubmissionConfig,
    total: SubmissionReport,
) -> None:
    planned, pages = ledger.progress.of(day).planned, ledger.submissions.pages_planned(day)
    bound = (
        ""
        if config.max_pages is None
        else f"; this run may pay for {max(0, config.max_pages - total.pages)} of them"
    )
    context.log.info(
        f"{day}: {planned} targets wait, at most {pages} pages{bound}; {pages_left(ledger, policy)}."
    )


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
    waits = " The account has no free place: waiting for one." if Bound.PLACES in report.held_by else ""
    context.log.info(f"{day}: {report.accepted} accepted so far.{waits}")
