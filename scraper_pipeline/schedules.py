"""What runs by the clock."""

from datetime import timedelta

import dagster as dg

from scraper_pipeline.accounts import lists_of
from scraper_pipeline.jobs import (
    compare_costs,
    lists_config,
    prune_ledger,
    reconcile_jobs,
    rotate_webhook_secrets,
    submit_jobs,
)
from scraper_pipeline.partitions import DAYS
from scraper_pipeline.resources import LedgerResource, explained_failures
from scraper_pipeline.settings import SettingsError, load_settings
from scraper_pipeline.target_lists import DAILY, MANUAL, TargetListError


@dg.schedule(
    job=submit_jobs,
    cron_schedule="10 0 * * *",
    execution_timezone=DAYS.timezone,
    description=(
        "Submits each day's targets ten minutes after the day has begun: those of all lists that name no other "
        "schedule. Off until switched on."
    ),
)
def daily_submission_schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    day = context.scheduled_execution_time.strftime("%Y-%m-%d")
    with explained_failures():
        lists = lists_of(load_settings())
    daily = [one.name for one in lists if one.schedule == DAILY]
    if not daily:
        return dg.SkipReason("Every list of targets.yaml is manual, or has a schedule of its own.")
    config = None if len(daily) == len(lists) else lists_config(daily)
    return dg.RunRequest(run_key=f"daily:{day}", partition_key=day, run_config=config)


def list_schedules() -> list[dg.ScheduleDefinition]:
    """A schedule for each list of targets.yaml that names one, as the file is now.

    While it or the file of accounts is absent or wrong there are none: the runs say what is wrong with it, and
    everything else goes on.
    """
    try:
        lists = lists_of(load_settings())
    except (TargetListError, SettingsError):
        return []
    return [_list_schedule(one.name, one.schedule) for one in lists if one.schedule not in (DAILY, MANUAL)]


def _list_schedule(name: str, cron: str) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=f"{name}_list_schedule",
        job=submit_jobs,
        cron_schedule=cron,
        execution_timezone=DAYS.timezone,
        description=f"Plans the list {name} for the day, and submits what is planned. Off until switched on.",
    )
    def list_schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
        at = context.scheduled_execution_time
        return dg.RunRequest(
            run_key=f"list:{name}:{at.timestamp():.0f}",
            partition_key=at.strftime("%Y-%m-%d"),
            run_config=lists_config([name]),
        )

    return list_schedule


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


@dg.schedule(
    job=compare_costs,
    cron_schedule="50 0,6,12,18 * * *",
    execution_timezone=DAYS.timezone,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=(
        "Shows what the day has cost so far, and ten to one at night what the day before has cost. Idle until "
        "something was planned."
    ),
)
def spend_schedule(
    context: dg.ScheduleEvaluationContext, ledger: LedgerResource
) -> dg.RunRequest | dg.SkipReason:
    with explained_failures(), ledger.open() as book:
        if not book.progress.revisions(limit=1):
            return dg.SkipReason("Nothing was ever planned: nothing was spent.")
    day = (context.scheduled_execution_time - timedelta(hours=1)).strftime("%Y-%m-%d")
    return (
        dg.RunRequest(partition_key=day)
        if DAYS.has_partition_key(day)
        else dg.SkipReason(f"{day} is too early.")
    )


@dg.schedule(
    job=prune_ledger,
    cron_schedule="20 4 * * *",
    execution_timezone=DAYS.timezone,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Drops each morning what is older than the settings keep it. Idle until one of them is set.",
)
def prune_schedule() -> dg.RunRequest | dg.SkipReason:
    with explained_failures():
        settings = load_settings()
    if settings.keep_content_days is None and settings.keep_news_days is None:
        return dg.SkipReason(
            "Everything is kept: SCRAPER_KEEP_CONTENT_DAYS and SCRAPER_KEEP_NEWS_DAYS are unset."
        )
    return dg.RunRequest()
