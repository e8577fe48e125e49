"""What runs by the clock."""

import dagster as dg

from scraper_pipeline.jobs import rotate_webhook_secrets, submit_jobs
from scraper_pipeline.partitions import DAYS


@dg.schedule(
    job=submit_jobs,
    cron_schedule="10 0 * * *",
    execution_timezone=DAYS.timezone,
    description="Submits each day's targets ten minutes after the day has begun. Off until switched on.",
)
def daily_submission_schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    day = context.scheduled_execution_time.strftime("%Y-%m-%d")
    return dg.RunRequest(run_key=f"daily:{day}", partition_key=day)


secret_rotation_schedule = dg.ScheduleDefinition(
    name="secret_rotation_schedule",
    job=rotate_webhook_secrets,
    cron_schedule="30 3 1 * *",
    execution_timezone=DAYS.timezone,
    description="Rotates the webhooks' secrets on the first of each month. Off until switched on.",
)
