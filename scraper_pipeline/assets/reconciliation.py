"""The asset ``reconciliation``: what every other channel has missed is found in the service's list and settled."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import dagster as dg

from scraper_pipeline.accounts import Accounts, OpenAccount, side_by_side
from scraper_pipeline.assets.figures import (
    limit_figures,
    materialised_revision,
    preview,
    submission_figures,
)
from scraper_pipeline.assets.holding import (
    is_refused,
    pausing_after_refusals,
    show_what_waits,
)
from scraper_pipeline.assets.results import (
    IO_MANAGER,
    check_complete,
    check_stored_once,
    day_figures,
    settle_all,
    settlement_of,
)
from scraper_pipeline.assets.submissions import POOL
from scraper_pipeline.assets.targets import OWNERS
from scraper_pipeline.ledger import JobOutcome, Ledger, Target
from scraper_pipeline.lifecycle import (
    HELD_LEASE,
    SETTLE_LEASE,
    SUBMIT_LEASE,
    Drain,
    Places,
    SweepReport,
    reconcile_jobs,
    submit_jobs,
)
from scraper_pipeline.partitions import DAYS
from scraper_pipeline.resources import (
    OF_AN_ACCOUNT,
    LedgerResource,
    ScraperResource,
    Setbacks,
    explained_failures,
    traced_step,
)
from scraper_pipeline.settings import load_settings
from scraper_pipeline.target_lists import InvalidTarget, make_target

SWEEP_SECONDS = 240.0
SUBMIT_SECONDS = 120.0
SETTLE_SECONDS = 180.0
WATCHED_DAYS = 400
SHOWN = 50
_STOPPED_TAG = "scraper/stopped"


@dg.op(out=dg.Out(dg.Nothing), pool=POOL)
def sweep(context: dg.OpExecutionContext, scraper: ScraperResource) -> None:
    """Compares the ledger with the service's list of jobs, and makes news of what ended unheard of."""

    async def reconcile(account: OpenAccount) -> SweepReport:
        policy = account.policy()
        async with account.open_client() as client:
            adopt = _target_of if policy.adopt_jobs else None
            return await reconcile_jobs(
                account.ledger, client, policy, make_target=adopt, seconds=SWEEP_SECONDS
            )

    with traced_step(context, "sweep"), explained_failures(), scraper.open() as accounts:
        setbacks = Setbacks(accounts.are_several)
        answers = asyncio.run(side_by_side(_in_use(accounts), reconcile))
    for name, report in answers.items():
        if isinstance(report, Exception):
            with explained_failures():
                setbacks.note(name, report)
            continue
        named = accounts.told(name)
        context.log.info(
            f"{named}Swept {report.listed} jobs with {report.requests} requests: {report.ended} ended unheard of."
        )
        if report.unresolved_because:
            context.log.warning(f"{named}Lost answers could not be resolved: {report.unresolved_because}")
        if not report.is_whole:
            context.log.warning(
                f"{named}The service did not list every job; the next sweep begins there again."
            )
    _note_stopped(context, setbacks)


def _note_stopped(context: dg.OpExecutionContext, setbacks: Setbacks) -> None:
    """Say what stopped some accounts; the run fails for it at its end, when the others have had all of it."""
    if setbacks.told:
        context.log.error(setbacks.told)
        context.instance.add_run_tags(context.run_id, {_STOPPED_TAG: setbacks.told})


def _in_use(accounts: Accounts) -> list[OpenAccount]:
    """The accounts that anything was ever planned for; the only one, whatever was."""
    if not accounts.are_several:
        return list(accounts)
    return [account for account in accounts if account.ledger.progress.revisions(limit=1)]


def _target_of(url: str) -> Target | None:
    try:
        return make_target(url, labels={"adopted": "true"})
    except InvalidTarget:
        return None


@dg.op(ins={"swept": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing), pool=POOL)
def submit_due(context: dg.OpExecutionContext, scraper: ScraperResource) -> None:
    """Submits what is planned and due, next attempts above all, where no submit run is at it."""
    with traced_step(context, "submit_due"), explained_failures(), scraper.open() as accounts:
        busy = accounts.ledger.leases.live(SUBMIT_LEASE)
        due: dict[str, list[str]] = {}
        for account in accounts:
            held = busy | account.ledger.leases.live(HELD_LEASE)
            pending = [one.partition_key for one in account.ledger.progress.partitions_to_submit()]
            if is_refused(account):
                context.log.warning(
                    f"{accounts.told(account.name)}The account was refused within the last minutes: nothing is "
                    "submitted for now."
                )
            elif days := [day for day in pending if day not in held]:
                due[account.name] = days

        async def submit(account: OpenAccount) -> None:
            days, policy = due[account.name], account.policy()
            with pausing_after_refusals(account.ledger):
                async with account.open_client() as client:
                    places = Places.of(client, policy)
                    for day in days:
                        report = await submit_jobs(
                            account.ledger,
                            client,
                            day,
                            policy,
                            seconds=SUBMIT_SECONDS / len(days),
                            places=places,
                        )
                        named = f"{accounts.told(account.name)}{day}"
                        context.log.info(f"{named}: {report.accepted} accepted, {report.refused} refused.")
                        if report.held_by:
                            context.log.warning(
                                f"{named}: the rest stays planned, held by {', '.join(report.held_by)}."
                            )

        if due:
            answers = asyncio.run(side_by_side([one for one in accounts if one.name in due], submit))
            show_what_waits(context, accounts)
            setbacks = Setbacks(accounts.are_several)
            setbacks.note_all({name: error for name, error in answers.items() if error is not None})
            _note_stopped(context, setbacks)


@dg.op(
    ins={"submitted": dg.In(dg.Nothing)},
    out=dg.Out(
        io_manager_key=IO_MANAGER,
        description="Outcomes of jobs, chunk by chunk; nothing is stored unless the IO manager consumes them.",
    ),
    pool=POOL,
)
def settle_found(
    context: dg.OpExecutionContext, scraper: ScraperResource
) -> Iterator[dg.Output[Iterator[Sequence[JobOutcome]]]]:
    """Settles the news that is there, of any day, where no settle run is at it."""
    yield dg.Output(_outcomes(context, scraper))


def _outcomes(context: dg.OpExecutionContext, scraper: ScraperResource) -> Iterator[Sequence[JobOutcome]]:
    with traced_step(context, "settle_found"), scraper.open() as accounts:
        busy, found = accounts.ledger.leases.live(SETTLE_LEASE), {}
        for account in accounts:
            account.ledger.news.take_over()
            days = [one.partition_key for one in account.ledger.progress.partitions_to_settle()]
            if days := [day for day in days if day not in busy]:
                at_once = replace(account.policy(), drain=SETTLE_SECONDS, drain_quiet=0.0)
                found[account.name] = settlement_of(account, days, at_once)
        if found:
            setbacks = yield from settle_all(accounts, Drain(found, OF_AN_ACCOUNT), context)
            _note_stopped(context, setbacks)


@dg.op(ins={"settled": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing, io_manager_key=IO_MANAGER))
def conclude_sweep(context: dg.OpExecutionContext, scraper: ScraperResource) -> None:
    """Shows what the sweep found, and turns the days green that are done since."""
    with explained_failures(), scraper.open() as accounts:
        for event in _conclusions(context.instance, accounts):
            context.log_event(event)  # type: ignore[arg-type]  # it takes evaluations of checks, too
        context.add_output_metadata(sweep_figures(accounts.ledger))
    run = context.instance.get_run_by_id(context.run_id)
    if run and (stopped := run.tags.get(_STOPPED_TAG)):
        raise dg.Failure(stopped)


def _conclusions(
    instance: dg.DagsterInstance, accounts: Accounts
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """Materialisations of the days that are done in the ledger and not green, if the blocking checks hold."""
    ledger = accounts.ledger
    for changed in ledger.progress.revisions(WATCHED_DAYS):
        day, progress = changed.partition_key, ledger.progress.of(changed.partition_key)
        if not progress.targets or not DAYS.has_partition_key(day):
            continue
        if progress.is_accepted and not materialised_revision(instance, "submitted_jobs", day):
            figures = submission_figures(ledger, day, limit_figures(accounts))
            yield dg.AssetMaterialization("submitted_jobs", partition=day, metadata=dict(figures))
        if (
            not progress.is_settled
            or materialised_revision(instance, "stored_results", day) >= changed.revision
        ):
            continue
        checks = [check_complete(ledger, [day]), check_stored_once(ledger, [day])]
        if all(check.passed for check in checks):
            for name, figures in day_figures(ledger, day).items():
                yield dg.AssetMaterialization(name, partition=day, metadata=figures)
        for check in checks:
            yield dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey("stored_results"),
                check_name=str(check.check_name),
                passed=check.passed,
                metadata=check.metadata,
                blocking=True,
            )


def sweep_figures(ledger: Ledger) -> dict[str, Any]:
    """What the last sweep found, how old the oldest unsettled job is (seconds), and who is late."""
    last = ledger.sweeps.last()
    foreign, jobs = ledger.foreign_jobs.newest(SHOWN)
    now = ledger.clock()
    offenders = [
        {
            "kind": one.kind,
            "day": one.partition_key,
            "age_seconds": round((now - one.since).total_seconds()),
            "status": one.status,
            "job_id": one.job_id,
            "url": one.url,
        }
        for one in ledger.sweeps.offenders(SHOWN)
    ]
    return {
        **(last[1] if last else {}),
        "foreign": foreign,
        "oldest_unsettled_seconds": round(ledger.sweeps.oldest_unsettled_seconds(), 1),
        "offenders": preview(offenders[:SHOWN]),
        "foreign_jobs": preview(
            [
                {"job_id": job.job_id, "status": job.status, "created_at": job.created_at, "url": job.url}
                for job in jobs
            ]
        ),
    }


@dg.graph_asset(
    group_name="operations",
    owners=OWNERS,
    kinds={"geonode", "sql"},
    description=(
        "The last line of defence, every ten minutes: reads the service's own list of jobs, settles what ended and was "
        "not heard of, resolves lost answers, submits next attempts that are due, and turns days green that are done. "
        "It works alone, with sensors and webhooks off. Healthy: `ended` is near 0, for the other channels were "
        "quicker. `offenders` names what is not settled, oldest first; `foreign_jobs` the jobs of other programs on "
        "the same key, which are left alone unless SCRAPER_ADOPT_JOBS is set."
    ),
)
def reconciliation() -> dg.Output[None]:
    concluded: dg.Output[None] = conclude_sweep(settle_found(submit_due(sweep())))
    return concluded


@dg.asset_check(
    asset="reconciliation",
    description="No job has been unsettled for longer than SCRAPER_UNSETTLED_ALERT_SECONDS.",
)
def nothing_is_overdue(ledger: LedgerResource) -> dg.AssetCheckResult:
    bound = load_settings().unsettled_alert_seconds
    with explained_failures(), ledger.open() as book:
        oldest = book.sweeps.oldest_unsettled_seconds()
    return dg.AssetCheckResult(
        passed=oldest <= bound,
        metadata={"oldest_unsettled_seconds": round(oldest, 1), "bound_seconds": bound},
    )
