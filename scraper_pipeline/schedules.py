"""What runs by the clock."""

import dagster as dg

from scraper_pipeline.jobs import reconcile_jobs, rotate_webhook_secrets, submit_jobs
from scraper_pipeline.partitions import DAYS
from scraper_pipeline.resources import LedgerResource, explained_failures


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


@dg.schedule(
    job=reconcile_jobs,
    cron_schedule="*/10 * * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Sweeps the service's list of jobs every ten minutes. Idle until something was planned.",
)
def reconciliation_schedule(
    context: dg.ScheduleEvaluationContext, ledger: LedgerResource
) -> dg.RunRequest | dg.SkipReason:
    with explained_failures(), ledger.open() as book:
        if not book.progress.revisions(limit=1):
            return dg.SkipReason("Nothing was ever planned: there is nothing to look for.")
    not_begun = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED]
    if context.instance.get_runs_count(dg.RunsFilter(job_name=reconcile_jobs.name, statuses=not_begun)):
        return dg.SkipReason("A sweep waits for its turn already.")
    return dg.RunRequest()
