"""What runs by the clock."""

import dagster as dg

from scraper_pipeline.jobs import submit_jobs
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
