"""The asset ``delivery_log``: how the service's webhooks reach us, as its own log tells."""

from datetime import timedelta
from typing import Any

import dagster as dg

from scraper_pipeline.assets.targets import OWNERS
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.resources import LedgerResource, explained_failures

SPAN = timedelta(hours=1)
ENOUGH_JOBS = 10

delivery_log = dg.AssetSpec(
    "delivery_log",
    group_name="operations",
    owners=OWNERS,
    kinds={"geonode"},
    description=(
        "Attempts of the service to deliver webhooks to our receiver, over the last hour. Reported by "
        "delivery_log_sensor; there is nothing to run. Healthy: nearly all acknowledged, within seconds. When many are "
        "refused with 401, the receiver lacks the secret: run `scraper-pipeline webhooks rotate`. Whatever was refused "
        "is settled all the same, from this log. `quarantined` counts signed bodies that nobody could use; look at the "
        "table `quarantine`."
    ),
)


def delivery_figures(ledger: Ledger) -> dict[str, Any]:
    """The last hour's deliveries; latency runs from a job's completion to its acknowledgement, in seconds."""
    now = ledger.clock()
    figures = ledger.webhooks.figures(now - SPAN)
    last = figures.last_delivery_at
    return {
        "attempts": figures.attempts,
        "acknowledged": figures.acknowledged,
        "refused": sum(figures.refused.values()),
        "quarantined": ledger.inbox.quarantined(),
        "refused_by_status": dg.MetadataValue.json(figures.refused),
        "latency_p50_seconds": round(figures.latency_p50, 3),
        "latency_p95_seconds": round(figures.latency_p95, 3),
        "seconds_since_last_delivery": round((now - last).total_seconds(), 1) if last else -1.0,
        "last_delivery": dg.MetadataValue.text(last.isoformat() if last else "none in the last hour"),
    }


def silence_check(ledger: Ledger) -> dg.AssetCheckResult:
    """Warns when jobs finish, webhooks are registered, and none has brought any news to the ledger in the last hour.

    The log alone does not decide: whoever stands before the receiver may acknowledge in its place.
    """
    since = ledger.clock() - SPAN
    active = [webhook for webhook in ledger.webhooks.registered() if webhook.is_active]
    processed = ledger.webhooks.jobs_processed_since(since)
    heard_of = ledger.webhooks.jobs_heard_of_since(since)
    acknowledged = ledger.webhooks.figures(since).acknowledged
    return dg.AssetCheckResult(
        asset_key="delivery_log",
        check_name="webhooks_deliver",
        passed=not active or processed < ENOUGH_JOBS or heard_of > 0,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "webhooks": len(active),
            "jobs_settled": processed,
            "jobs_heard_of": heard_of,
            "acknowledged": acknowledged,
        },
    )


@dg.asset_check(
    asset="delivery_log",
    description="While jobs finish, the webhooks that are registered bring news of some of them.",
)
def webhooks_deliver(ledger: LedgerResource) -> dg.AssetCheckResult:
    with explained_failures(), ledger.open() as book:
        return silence_check(book)
