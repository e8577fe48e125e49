"""The one Definitions object: what Dagster serves of this project."""

import dagster as dg

from scraper_pipeline.assets import ASSETS, CHECKS
from scraper_pipeline.io_managers import IdempotencyIOManager
from scraper_pipeline.jobs import settle_jobs, submit_jobs
from scraper_pipeline.resources import LedgerResource, ScraperResource, TargetListResource
from scraper_pipeline.schedules import daily_submission_schedule
from scraper_pipeline.sensors import job_status_sensor

_ledger = LedgerResource()

defs = dg.Definitions(
    assets=ASSETS,
    asset_checks=CHECKS,
    jobs=[submit_jobs, settle_jobs],
    sensors=[job_status_sensor],
    schedules=[daily_submission_schedule],
    resources={
        "ledger": _ledger,
        "scraper": ScraperResource(),
        "target_list": TargetListResource(),
        "idempotency_io_manager": IdempotencyIOManager(ledger=_ledger),
    },
    # The UI's Materialize button takes no job's executor, only this one.
    executor=dg.in_process_executor,
)
