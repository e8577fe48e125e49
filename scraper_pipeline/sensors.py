"""The pump, which looks at what is due and asks for runs, the reader of the delivery log, and who publishes."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable

import dagster as dg

from scraper_pipeline.accounts import Accounts, OpenAccount, side_by_side
from scraper_pipeline.assets.holding import is_refused
from scraper_pipeline.assets.operations import delivery_figures, silence_check
from scraper_pipeline.assets.pages import pages
from scraper_pipeline.jobs import PUBLISHING, settle_jobs, submit_jobs
from scraper_pipeline.lifecycle import (
    RESOLUTION_SECONDS,
    Bound,
    DeliveryLogReport,
    pages_left,
    poll_jobs,
    read_delivery_log,
    resolve_lost_answers,
)
from scraper_pipeline.resources import ScraperResource, Setbacks, explained_failures, traced_tick
from scraper_pipeline.run_requests import (
    Queued,
    conclusions_asked_for,
    settlements_asked_for,
    submissions_asked_for,
)
from scraper_pipeline.scraper_api import ScraperError

TICK_SECONDS = 15.0  # in which a tick begins listing calls; Dagster's own limit is 60
LOOK_SECONDS = 30.0  # after which a tick fails that still waits for an answer
# A start that never comes is over after Dagster's own `start_timeout_seconds`.
_WAITING = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING]
_REFUSED = (
    "The service refused the account (key or balance) minutes ago: nothing is submitted for now, and nothing is lost. "
    "Launch submit_jobs once that is mended, or wait."
)
_USED_UP = "is used up: what is planned waits, and nothing is lost."


@dg.sensor(
    jobs=[submit_jobs, settle_jobs],
    minimum_interval_seconds=5,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Polls the jobs whose look is due, and asks for submit and settle runs. It decides from the ledger alone: its "
        "cursor only remembers which days are already green. When the service can't be reached its ticks fail; "
        "nothing is lost by that."
    ),
)
def job_status_sensor(
    context: dg.SensorEvaluationContext, scraper: ScraperResource
) -> dg.SensorResult | dg.SkipReason:
    with traced_tick("job_status_sensor"), explained_failures(), scraper.open() as accounts:
        setbacks = Setbacks(accounts.are_several)
        in_use = [account for account in accounts if account.ledger.progress.has_open_targets()]
        setbacks.note_all(_ask_each(in_use, _look))
        for account in accounts:
            account.ledger.news.take_over()
        green = _read_cursor(context.cursor)
        queued = _queued(context.instance)
        used_up = {one.name: bound for one in in_use if (bound := _used_up(one))}
        refused = {one.name for one in accounts if is_refused(one)}
        reachable = [one for one in accounts if one.name not in setbacks]
        may_send = [one for one in reachable if one.name not in used_up.keys() | refused]
        requests = list(submissions_asked_for(accounts, may_send, queued)) if may_send else []
        requests += settlements_asked_for(accounts, reachable, queued)
        asked = {(request.job_name, request.partition_key) for request in requests}
        requests += [
            request
            for request in conclusions_asked_for(context.instance, accounts, green)
            if (request.job_name, request.partition_key) not in asked | queued
        ]
        problem = " ".join(filter(None, [setbacks.told, _resolve(accounts, reachable)]))
        if problem and not requests:
            raise dg.Failure(problem)
    if problem:  # what can be done without these rows goes on
        context.log.error(problem)
    waits = [
        *(f"{accounts.told(name)}{_REFUSED}" for name in sorted(refused)),
        *(
            f"{accounts.told(name)}{bound} {_USED_UP}"
            for name, bound in used_up.items()
            if name not in refused
        ),
    ]
    if waits and not requests and len(refused) == len(accounts):
        return dg.SkipReason(" ".join(waits))
    return dg.SensorResult(
        run_requests=requests,
        skip_reason=None if requests else " ".join(waits) or None,
        cursor=json.dumps(green, sort_keys=True),
    )


def _used_up(account: OpenAccount) -> Bound | None:
    return pages_left(account.ledger, account.policy()).used_up


def _ask_each(
    accounts: Iterable[OpenAccount], act: Callable[[OpenAccount], Awaitable[object]]
) -> dict[str, Exception]:
    """Ask the service for each account, side by side; returns what stopped some of them."""
    chosen = list(accounts)
    answers = asyncio.run(side_by_side(chosen, act)) if chosen else {}
    return {name: answer for name, answer in answers.items() if isinstance(answer, Exception)}


async def _look(account: OpenAccount) -> None:
    try:
        async with asyncio.timeout(LOOK_SECONDS), account.open_client() as client:
            await poll_jobs(account.ledger, client, account.policy(), seconds=TICK_SECONDS)
    except TimeoutError:
        raise dg.Failure(
            f"The service did not answer within {LOOK_SECONDS:g} s; check GEONODE_SCRAPER_HOST if it stays so. Nothing "
            "is lost: the ledger holds what is to be done, and the next tick takes it up."
        ) from None


def _resolve(accounts: Accounts, reachable: Iterable[OpenAccount]) -> str | None:
    """Resolve lost answers; returns why that could not be done, which concerns no other target."""

    async def resolve(account: OpenAccount) -> None:
        async with asyncio.timeout(RESOLUTION_SECONDS + 5), account.open_client() as client:
            await resolve_lost_answers(account.ledger, client, account.policy(), seconds=RESOLUTION_SECONDS)

    overdue = [one for one in reachable if one.ledger.submissions.overdue(one.policy().send_grace)]
    said = []
    for name, error in _ask_each(overdue, resolve).items():
        if not isinstance(error, ScraperError | TimeoutError):
            raise error
        reason = str(error) or "the service did not answer in time"
        said.append(
            f"{accounts.told(name)}Lost answers could not be resolved: {reason}. They are looked up again at the next "
            "tick."
        )
    return " ".join(said) or None


def _queued(instance: dg.DagsterInstance) -> Queued:
    """The jobs and days that a run waits for in the queue, or for a machine to begin on: another would wait as well."""
    runs = instance.get_runs(dg.RunsFilter(statuses=_WAITING), limit=1000)
    return {(run.job_name, run.tags.get("dagster/partition")) for run in runs}


def _read_cursor(cursor: str | None) -> dict[str, dict[str, int]]:
    """The revision at which each job's assets of a day were seen materialised; an unreadable cursor knows nothing."""
    try:
        known = json.loads(cursor or "{}")
        return {
            job: {str(day): int(revision) for day, revision in known.get(job, {}).items()}
            for job in (submit_jobs.name, settle_jobs.name)
        }
    except (ValueError, TypeError, AttributeError):
        return {submit_jobs.name: {}, settle_jobs.name: {}}


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Reads the delivery log of every webhook of ours, makes news of what was refused or abandoned, and reports the "
        "asset delivery_log with its check. Idle while no webhook is registered."
    ),
)
def delivery_log_sensor(
    context: dg.SensorEvaluationContext, scraper: ScraperResource
) -> dg.SensorResult | dg.SkipReason:
    with traced_tick("delivery_log_sensor"), explained_failures(), scraper.open() as accounts:
        webhooks = {one.name: len(found) for one in accounts if (found := one.ledger.webhooks.registered())}
        if not webhooks:
            return dg.SkipReason("No webhook is registered: news comes by polling.")
        answers = asyncio.run(side_by_side([one for one in accounts if one.name in webhooks], _read_log))
        setbacks = Setbacks(accounts.are_several)
        setbacks.note_all({name: one for name, one in answers.items() if isinstance(one, Exception)})
        reports = [one for one in answers.values() if isinstance(one, DeliveryLogReport)]
        if not reports:
            setbacks.tell()
        metadata = {
            "webhooks": sum(webhooks.values()),
            "new_attempts": sum(one.new_attempts for one in reports),
            "replayed": sum(one.replayed for one in reports),
            "gone": sum(one.gone for one in reports),
            **delivery_figures(accounts.ledger),
        }
        check = silence_check(accounts.ledger)
    if setbacks.told:  # a failed tick would show nothing of the others
        context.log.error(setbacks.told)
    return dg.SensorResult(
        asset_events=[
            dg.AssetMaterialization("delivery_log", metadata=metadata),
            dg.AssetCheckEvaluation(
                asset_key=dg.AssetKey("delivery_log"),
                check_name="webhooks_deliver",
                passed=check.passed,
                severity=check.severity,
                metadata=check.metadata,
            ),
        ]
    )


async def _read_log(account: OpenAccount) -> DeliveryLogReport:
    try:
        async with asyncio.timeout(LOOK_SECONDS), account.open_client() as client:
            return await read_delivery_log(account.ledger, client)
    except TimeoutError:
        raise dg.Failure(
            f"The delivery log was not read within {LOOK_SECONDS:g} s; check GEONODE_SCRAPER_HOST if it stays so. "
            "Nothing is lost: what was read is kept, polling goes on, and the next tick reads on."
        ) from None


# Named, because the one that Dagster makes of itself is off until somebody switches it on.
publication_sensor = dg.AutomationConditionSensorDefinition(
    "publication_sensor",
    target=dg.AssetSelection.assets(pages),
    default_status=dg.DefaultSensorStatus.RUNNING,
    run_tags=PUBLISHING,
    description=(
        "Publishes the pages of each day that is done, again when late results came, and again half an hour after a "
        "publication failed. It asks for runs of the asset pages; days that are not done it leaves alone."
    ),
)
