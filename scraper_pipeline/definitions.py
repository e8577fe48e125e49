"""The one Definitions object: what Dagster serves of this project."""

import dagster as dg

from scraper_pipeline.assets import ASSETS, CHECKS
from scraper_pipeline.io_managers import IdempotencyIOManager
from scraper_pipeline.jobs import (
    reconcile_jobs,
    replay_webhook_deliveries,
    rotate_webhook_secrets,
    settle_jobs,
    submit_jobs,
)
from scraper_pipeline.resources import (
    LedgerResource,
    ScraperResource,
    TargetListResource,
    WebhookSecretsResource,
)
from scraper_pipeline.schedules import (
    daily_submission_schedule,
    reconciliation_schedule,
    secret_rotation_schedule,
)
from scraper_pipeline.sensors import delivery_log_sensor, job_status_sensor

defs = dg.Definitions(
    assets=ASSETS,
    asset_checks=CHECKS,
    jobs=[submit_jobs, settle_jobs, reconcile_jobs, rotate_webhook_secrets, replay_webhook_deliveries],
    sensors=[job_status_sensor, delivery_log_sensor],
    schedules=[daily_submission_schedule, reconciliation_schedule, secret_rotation_schedule],
    resources={
        "ledger": LedgerResource(),
        "scraper": ScraperResource(),
        "target_list": TargetListResource(),
        "webhook_secrets": WebhookSecretsResource(),
        "idempotency_io_manager": IdempotencyIOManager(),
    },
    # The UI's Materialize button takes no job's executor, only this one.
    executor=dg.in_process_executor,
)
