"""The runs that sensors, schedules and people ask for."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import dagster as dg
from pydantic import Field

from scraper_pipeline.accounts import OpenAccount
from scraper_pipeline.assets.deadline import done_in_time
from scraper_pipeline.assets.letters import discard_chosen_letters, retry_chosen_letters
from scraper_pipeline.assets.pages import pages
from scraper_pipeline.assets.reconciliation import reconciliation
from scraper_pipeline.assets.results import settlement
from scraper_pipeline.assets.retention import prune_what_is_old
from scraper_pipeline.assets.spend import spend
from scraper_pipeline.assets.submissions import submitted_jobs
from scraper_pipeline.assets.targets import targets
from scraper_pipeline.ledger import ReplayReport
from scraper_pipeline.lifecycle import (
    RotationReport,
    replay_deliveries,
    replayed_together,
    rotate_secrets,
)
from scraper_pipeline.resources import ScraperResource, Setbacks, WebhookSecretsResource, explained_failures
from scraper_pipeline.scraper_api import parse_time

# Well above the budget of a drain: a run that is older hangs, and is ended by run monitoring.
_MAX_RUNTIME = {"dagster/max_runtime": "1800"}
# A backfill writes many days in one run. Nobody waits for it as jobs that were submitted do.
PUBLISHING = {"dagster/max_runtime": "21600", "dagster/priority": "-1"}

submit_jobs = dg.define_asset_job(
    "submit_jobs",
    selection=dg.AssetSelection.assets(targets, submitted_jobs),
    tags=_MAX_RUNTIME,
    description="Plan a day's targets and submit what is planned. Running it again submits nothing twice.",
)


def lists_config(names: Sequence[str]) -> dict[str, Any]:
    """The configuration of a submit run that plans these lists and no other."""
    return {"ops": {"targets": {"config": {"lists": list(names)}}}}


settle_jobs = dg.define_asset_job(
    "settle_jobs",
    # Whether a day is late is for the sweep to say, every ten minutes.
    selection=dg.AssetSelection.assets(settlement) - dg.AssetSelection.checks(done_in_time),
    # Before submit runs in the queue: what they may wait for, free places, storing results does not have to wait for.
    tags={**_MAX_RUNTIME, "dagster/priority": "1"},
    description="Store what has ended of a day's jobs, until news has been quiet for a while. Asked for by the sensor.",
)

reconcile_jobs = dg.define_asset_job(
    "reconcile_jobs",
    selection=dg.AssetSelection.assets(reconciliation) | dg.AssetSelection.checks(done_in_time),
    tags=_MAX_RUNTIME,
    description="Find in the service's list what no other channel has brought, and settle it. Runs by schedule.",
)

publish_pages = dg.define_asset_job(
    "publish_pages",
    selection=dg.AssetSelection.assets(pages),
    tags=PUBLISHING,
    description=(
        "Publish a day's pages as they are stored now, be the day done or not. Done days are published by themselves."
    ),
)

compare_costs = dg.define_asset_job(
    "compare_costs",
    selection=dg.AssetSelection.assets(spend) | dg.AssetSelection.checks_for_assets(spend),
    tags=_MAX_RUNTIME,
    description="Show what a day has cost, beside the service's own statistics. Runs by schedule; it changes nothing.",
)


@dg.op(description="Give every webhook a new secret, and replay what was refused in between.")
def rotate_all(
    context: dg.OpExecutionContext,
    scraper: ScraperResource,
    webhook_secrets: WebhookSecretsResource,
) -> None:
    async def rotate(account: OpenAccount) -> RotationReport:
        async with account.open_client() as client:
            return await rotate_secrets(account.ledger, client, webhook_secrets.open())

    total = RotationReport()
    with explained_failures(), scraper.open() as accounts:
        setbacks = Setbacks(accounts.are_several)
        for account in accounts:
            if accounts.are_several and not account.ledger.webhooks.registered():
                continue
            with setbacks.of(account.name):
                total += asyncio.run(rotate(account))
    context.add_output_metadata({"rotated": total.rotated, "replayed": total.replayed, "gone": total.gone})
    setbacks.tell()


@dg.job(description="Rotate the secrets of all webhooks; the old ones are accepted for a day.")
def rotate_webhook_secrets() -> None:
    rotate_all()


class ReplayConfig(dg.Config):
    """Which jobs are settled once more."""

    since: str | None = Field(
        default=None,
        description="Replay every delivery attempted since this time (ISO 8601; UTC without a zone).",
    )
    job_ids: list[str] = Field(default=[], description="Replay these jobs.")


@dg.op(description="Have jobs settled once more; what is already done is counted and left alone.")
def replay(context: dg.OpExecutionContext, config: ReplayConfig, scraper: ScraperResource) -> None:
    since = _read_since(config.since)

    async def ask(account: OpenAccount) -> ReplayReport:
        if since is None or (accounts.are_several and not account.ledger.webhooks.registered()):
            return await replay_deliveries(account.ledger, None, since=since, job_ids=tuple(config.job_ids))
        async with account.open_client() as client:
            return await replay_deliveries(account.ledger, client, since=since, job_ids=tuple(config.job_ids))

    reports: list[ReplayReport] = []
    with explained_failures(), scraper.open() as accounts:
        setbacks = Setbacks(accounts.are_several)
        for account in accounts:
            with setbacks.of(account.name):
                reports.append(asyncio.run(ask(account)))
    report = replayed_together(reports, config.job_ids)
    context.log.info(
        f"{report.taken_up} taken up again, {report.already_done} already done, {report.not_ours} not ours"
    )
    context.add_output_metadata(
        {"taken_up": report.taken_up, "already_done": report.already_done, "not_ours": report.not_ours}
    )
    setbacks.tell()


def _read_since(text: str | None) -> datetime | None:
    since = parse_time(text) if text else None
    if text and since is None:
        raise dg.Failure(
            f"`since` takes a time such as 2026-01-31T06:00:00Z; it was {text!r}", allow_retries=False
        )
    return since


@dg.job(description="Replay webhook deliveries on purpose, by time or by job id. May be repeated.")
def replay_webhook_deliveries() -> None:
    replay()


@dg.job(
    description=(
        "Plan the targets of dead letters once more, chosen by `ids`, or by `codes` and `days`, for `max_pages` at "
        "most. It sends nothing: job_status_sensor asks for submit_jobs."
    )
)
def retry_dead_letters() -> None:
    retry_chosen_letters()


@dg.job(
    description=(
        "Discard dead letters, chosen by `ids`, or by `codes` and `days`: their targets stay parked, and only their "
        "ids bring them back."
    )
)
def discard_dead_letters() -> None:
    discard_chosen_letters()


@dg.job(
    description=(
        "Drop the content of old pages that the published files have, and old events and deliveries, as "
        "SCRAPER_KEEP_CONTENT_DAYS and SCRAPER_KEEP_NEWS_DAYS say. Runs by schedule."
    ),
    tags=PUBLISHING,
)
def prune_ledger() -> None:
    prune_what_is_old()
