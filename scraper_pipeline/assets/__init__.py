"""The assets: targets become jobs, jobs become stored results or dead letters, results become files, day by day."""

import dagster as dg

from scraper_pipeline.assets.deadline import done_in_time, with_deadline
from scraper_pipeline.assets.holding import nothing_waits
from scraper_pipeline.assets.operations import delivery_log, webhooks_deliver
from scraper_pipeline.assets.pages import pages
from scraper_pipeline.assets.quality import pages_are_worth_their_price
from scraper_pipeline.assets.reconciliation import nothing_is_overdue, reconciliation
from scraper_pipeline.assets.results import (
    complete,
    settlement,
    share_of_parked_targets,
    stored_once,
)
from scraper_pipeline.assets.spend import spend
from scraper_pipeline.assets.submissions import submitted_jobs
from scraper_pipeline.assets.targets import lists_keep_their_size, targets

ASSETS: list[dg.AssetsDefinition | dg.AssetSpec] = [
    targets,
    submitted_jobs,
    with_deadline(settlement, "stored_results"),
    pages,
    delivery_log,
    reconciliation,
    spend,
]
CHECKS = [
    lists_keep_their_size,
    complete,
    stored_once,
    pages_are_worth_their_price,
    done_in_time,
    share_of_parked_targets,
    webhooks_deliver,
    nothing_is_overdue,
    nothing_waits,
]

__all__ = ["ASSETS", "CHECKS"]
