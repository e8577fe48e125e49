"""The one Definitions object: what Dagster serves of this project."""

import dagster as dg

from scraper_pipeline.alerts import alert_sensor
from scraper_pipeline.assets import ASSETS, CHECKS
from scraper_pipeline.io_managers import IdempotencyIOManager
from scraper_pipeline.jobs import (
    compare_costs,
    discard_dead_letters,
    prune_ledger,
    publish_pages,
    reconcile_jobs,
    replay_webhook_deliveries,
    retry_dead_letters,
    rotate_webhook_secrets,
    settle_jobs,
    submit_jobs,
)
from scraper_pipeline.resources import (
    LedgerResource,
    PublishedPagesResource,
    ScraperResource,
    TargetListResource,
    WebhookSecretsResource,
)
from scraper_pipeline.schedules import (
    daily_submission_schedule,
    list_schedules,
    prune_schedule,
    reconciliation_schedule,
    secret_rotation_schedule,
    spend_schedule,
)
from scraper_pipeline.sensors import delivery_log_sensor, job_status_sensor, publication_sensor

defs = dg.Definitions(
    assets=ASSETS,
    asset_checks=CHECKS,
    jobs=[
        submit_jobs,
        settle_jobs,
        publish_pages,
        reconcile_jobs,
        compare_costs,
        rotate_webhook_secrets,
        replay_webhook_deliveries,
        retry_dead_letters,
        discard_dead_letters,
        prune_ledger,
    ],
    sensors=[job_status_sensor, delivery_log_sensor, publication_sensor, alert_sensor],
    schedules=[
        daily_submission_schedule,
        *list_schedules(),
        reconciliation_schedule,
        secret_rotation_schedule,
        spend_schedule,
        prune_schedule,
    ],
    resources={
        "ledger": LedgerResource(),
        "published_pages": PublishedPagesResource(),
        "scraper": ScraperResource(),
        "target_list": TargetListResource(),
        "webhook_secrets": WebhookSecretsResource(),
        "idempotency_io_manager": IdempotencyIOManager(),
    },
    # The UI's Materialize button takes no job's executor, only this one.
    executor=dg.in_process_executor,
)
