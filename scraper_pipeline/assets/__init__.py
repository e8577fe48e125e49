"""The assets: targets become jobs, jobs become stored results or dead letters, day by day."""

import dagster as dg

from scraper_pipeline.assets.deadline import done_in_time, with_deadline
from scraper_pipeline.assets.holding import nothing_waits
from scraper_pipeline.assets.operations import delivery_log, webhooks_deliver
from scraper_pipeline.assets.quality import (
    share_of_empty_pages,
    share_of_repeated_pages,
    size_is_usual,
)
from scraper_pipeline.assets.reconciliation import nothing_is_overdue, reconciliation
from scraper_pipeline.assets.results import (
    complete,
    settlement,
    share_of_parked_targets,
    stored_once,
)
from scraper_pipeline.assets.submissions import submitted_jobs
from scraper_pipeline.assets.targets import targets

ASSETS: list[dg.AssetsDefinition | dg.AssetSpec] = [
    targets,
    submitted_jobs,
    with_deadline(settlement, "stored_results"),
    delivery_log,
    reconciliation,
]
CHECKS = [
    complete,
    stored_once,
    share_of_empty_pages,
    share_of_repeated_pages,
    size_is_usual,
    done_in_time,
    share_of_parked_targets,
    webhooks_deliver,
    nothing_is_overdue,
    nothing_waits,
]

__all__ = ["ASSETS", "CHECKS"]
