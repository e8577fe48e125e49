"""The asset ``submitted_jobs``: what a day has handed to the service."""

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from time import monotonic

import dagster as dg
from pydantic import Field

from scraper_pipeline.accounts import Accounts, OpenAccount, side_by_side
from scraper_pipeline.assets.figures import limit_figures, submission_figures
from scraper_pipeline.assets.holding import (
    hold_days,
    is_refused,
    pausing_after_refusals,
    show_what_waits,
)
from scraper_pipeline.assets.targets import OWNERS, targets
from scraper_pipeline.lifecycle import (
    HELD_LEASE,
    RESOLUTION_SECONDS,
    SUBMIT_LEASE,
    Bound,
    Places,
    SubmissionReport,
    pages_left,
    resolve_lost_answers,
    resubmit_targets,
    submit_jobs,
)
from scraper_pipeline.partitions import DAYS, ONE_RUN
from scraper_pipeline.resources import ScraperResource, Setbacks, explained_failures, traced_step
from scraper_pipeline.scraper_api import ScraperClient, ScraperError, Throttled

POOL = "geonode_scraper_api"
_SENSOR_TAG = "dagster/sensor_name"  # Dagster's own, on each run that a sensor asked for
_RETRY_TAG = "dagster/retry_number"  # and on each that the daemon has begun again


class Resubmit(Enum):
    """Which settled targets are submitted once more, and paid once more."""

    none = "none"
    failed = "failed"
    all = "all"


class SubmissionConfig(dg.Config):
    """How a submit run differs from the ordinary one, which submits what is planned and nothing else."""

    resubmit: Resubmit = Field(
        default=Resubmit.none,
        description="Submit settled targets again: failed ones, or all. Every page is paid again.",
    )
    max_pages: int | None = Field(
        default=None,
        ge=0,
        description=(
            "The most pages that this run may cost, over all of its days and accounts; a crawl counts with its limit. "
            "What is beyond stays planned until somebody launches submit_jobs for the day again: the sensor and the "
            "sweep leave it alone. With `resubmit` no more than that is planned again."
        ),
    )


@dg.asset(
    partitions_def=DAYS,
    backfill_policy=ONE_RUN,
    deps=[targets],
    group_name="jobs",
    owners=OWNERS,
    kinds={"geonode"},
    pool=POOL,
    io_manager_key="idempotency_io_manager",
    output_required=False,
    description=(
        "The jobs of a day: each planned target is submitted once, its intent written down before. Green when the "
        "service has taken every target or refused it for good. A target whose answer was lost is looked up after a "
        "grace and never sent blindly again; until then the day stays as it was, and the job status sensor asks for "
        "the next run. Running it again submits nothing that was submitted. What the page limits or `max_pages` have "
        "no room for stays planned, and the check `nothing_waits` says so. Of several accounts, one that is refused "
        "keeps no other waiting: the run fails afterwards, and names it."
    ),
)
def submitted_jobs(
    context: dg.AssetExecutionContext, config: SubmissionConfig, scraper: ScraperResource
) -> Iterator[dg.MaterializeResult[None] | dg.AssetMaterialization | dg.AssetObservation]:
    days, config = list(context.partition_keys), _paying_once(context, config)
    with traced_step(context, "submitted_jobs"), explained_failures(), scraper.open() as accounts:
        if config.max_pages is not None:  # before anything that may fail: the sensor looks every few seconds
            hold_days(accounts, days)
        run = _Run(context, accounts, days, config)
        setbacks = Setbacks(accounts.are_several)
        try:
            setbacks.note_all(asyncio.run(run.submit_all()))
        except ScraperError:
            show_what_waits(context, accounts)
            raise
        run.tell()
        left = limit_figures(accounts)
        figures = {day: submission_figures(accounts.ledger, day, left) for day in days}
        show_what_waits(context, accounts)
    if all(day["planned"] == 0 and day["sending"] == 0 for day in figures.values()):
        if setbacks.told:
            context.log.warning(setbacks.told)
        for day, shown in figures.items():
            context.add_asset_metadata(shown, asset_key="submitted_jobs", partition_key=day)
        yield dg.MaterializeResult()
        return
    waiting = sum(shown["planned"] + shown["sending"] for shown in figures.values())
    context.log.warning(
        f"{waiting} targets are not with the service yet: what follows in this run is skipped. "
        + (
            "Launch submit_jobs again for what `max_pages` left planned. "
            if config.max_pages is not None
            else "The job status sensor asks for the next runs. "
        )
        + "What is accepted is settled by settle_jobs all the same."
    )
    for day, shown in figures.items():
        event = dg.AssetObservation if shown["planned"] or shown["sending"] else dg.AssetMaterialization
        if setbacks.told:
            yield event("submitted_jobs", partition=day, metadata=shown)  # a failure takes what is but logged
        else:
            context.log_event(event("submitted_jobs", partition=day, metadata=shown))
    setbacks.tell()


def _paying_once(context: dg.AssetExecutionContext, config: SubmissionConfig) -> SubmissionConfig:
    """What a run may pay for: one that Dagster began again after it was lost, for nothing that somebody asked for.

    What the lost one has sent would be sent, and its allowance spent, once more.
    """
    is_bounded = config.max_pages is not None
    if _RETRY_TAG not in context.run.tags or not (is_bounded or config.resubmit is not Resubmit.none):
        return config
    context.log.warning(
        "This run stands in for one that was lost, so `resubmit` and `max_pages` are not carried out again. See what "
        "that one has done, and launch submit_jobs for the rest."
    )
    return SubmissionConfig(max_pages=0 if is_bounded else None)


@dataclass
class _Run:
    """One run: what it may do for which days, and what came of it so far over all accounts."""

    context: dg.AssetExecutionContext
    accounts: Accounts
    days: Sequence[str]
    config: SubmissionConfig
    total: SubmissionReport = field(default_factory=SubmissionReport)
    requests: int = 0
    planned_again: int = 0
    began: float = field(default_factory=monotonic)

    async def submit_all(self) -> dict[str, Exception]:
        """Submit for every account side by side; returns what stopped some. That of the only one is raised.

        Under a bound of pages, which is for all of them together, they take turns.
        """
        if self.config.max_pages is None and self.accounts.are_several:
            answers = await side_by_side(self.accounts, self.submit)
            return {name: answer for name, answer in answers.items() if answer is not None}
        stopped: dict[str, Exception] = {}
        for account in self.accounts:
            try:
                await self.submit(account)
            except Exception as error:  # kept for whoever tells account's matters from others
                if not self.accounts.are_several:
                    raise
                stopped[account.name] = error
        return stopped

    async def submit(self, account: OpenAccount) -> None:
        """Submit an account's part of the days."""
        if self.accounts.are_several and not self._has_work(account):
            for day in self.days:  # or the sensor's own lease would hold up the next request for a while
                account.ledger.leases.take(SUBMIT_LEASE, day, self.context.run.run_id, 0, force=True)
                self._end_hold(account, day)
            return
        with pausing_after_refusals(account.ledger):
            async with account.open_client() as client:
                try:
                    await self._submit_days(account, client)
                finally:
                    self.requests += sum(client.requests_made.values())

    def tell(self) -> None:
        """Say in the run's log what came of it, and what was out of the ordinary."""
        total, log = self.total, self.context.log
        log.info(
            f"{total.accepted} accepted, {total.refused} refused, for at most {total.pages} pages, "
            f"with {self.requests} requests."
        )
        _tell(self.context, total)

    def _has_work(self, account: OpenAccount) -> bool:
        if _SENSOR_TAG in self.context.run.tags and is_refused(account):
            self.context.log.warning(
                f"{account.name}: the service refused the account minutes ago; nothing is submitted for it."
            )
            return False
        progress = [account.ledger.progress.of(day) for day in self.days]
        is_again = self.config.resubmit is not Resubmit.none and any(day.targets for day in progress)
        return is_again or not all(day.is_accepted for day in progress)

    async def _submit_days(self, account: OpenAccount, client: ScraperClient) -> None:
        ledger, policy, holder = account.ledger, account.policy(), uuid.uuid4().hex
        await self._resolve(account, client)
        places = Places.of(client, policy)
        for day in self._unless_held(account):
            ledger.leases.take(SUBMIT_LEASE, day, holder, policy.run_lease, force=True)
            try:
                await self._resubmit(account, client, day)
                self._tell_the_cost(account, day)
                most = self.config.max_pages
                report = await submit_jobs(
                    ledger,
                    client,
                    day,
                    policy,
                    max_pages=None if most is None else most - self.total.pages,
                    seconds=max(0.0, policy.drain - (monotonic() - self.began)),
                    places=places,
                    on_chunk=partial(self._show_chunk, account, day, holder),
                )
                self.total += report
            finally:
                ledger.leases.drop(SUBMIT_LEASE, day, holder)
            self._end_hold(account, day)

    @staticmethod
    def _end_hold(account: OpenAccount, day: str) -> None:
        if not account.ledger.progress.of(day).planned:
            account.ledger.leases.drop(HELD_LEASE, day, HELD_LEASE)

    def _unless_held(self, account: OpenAccount) -> Sequence[str]:
        """The days that may be submitted: by a run of the sensor's none that an operator's ``max_pages`` has held."""
        leases = account.ledger.leases
        if self.config.max_pages is not None:
            return self.days
        if _SENSOR_TAG not in self.context.run.tags:
            for day in self.days:
                leases.drop(HELD_LEASE, day, HELD_LEASE)
            return self.days
        held = leases.live(HELD_LEASE).intersection(self.days)
        if held:
            self.context.log.warning(
                f"What `max_pages` of an earlier run left planned waits for a launch: {', '.join(sorted(held))}."
            )
        return [day for day in self.days if day not in held]

    async def _resubmit(self, account: OpenAccount, client: ScraperClient, day: str) -> None:
        """Plan settled targets again, if that is asked for."""
        if self.config.resubmit is Resubmit.none:
            return
        most, which, log = self.config.max_pages, self.config.resubmit.value, self.context.log
        room = None if most is None else most - self.planned_again
        again = await resubmit_targets(account.ledger, client, day, which, room)
        self.planned_again += again.pages
        named = f"{self.accounts.told(account.name)}{day}"
        log.info(f"{named}: {again.planned} targets are planned again, for at most {again.pages} pages.")
        if again.planned and account.ledger.retention.pruned([day]):
            log.warning(
                f"{day}: content was pruned, so the published file of the day stays as it was made before; what comes "
                "now is in the ledger alone."
            )
        if again.beyond:
            log.warning(f"{named}: {again.beyond} targets more are left as they are, for `max_pages`.")

    def _tell_the_cost(self, account: OpenAccount, day: str) -> None:
        ledger, most = account.ledger, self.config.max_pages
        planned, pages = ledger.progress.of(day).planned, ledger.submissions.pages_planned(day)
        room = 0 if most is None else max(0, most - self.total.pages)
        bound = "" if most is None else f"; this run may pay for {room} of them"
        self.context.log.info(
            f"{self.accounts.told(account.name)}{day}: {planned} targets wait, at most {pages} pages{bound}; "
            f"{pages_left(ledger, account.policy())}."
        )

    async def _resolve(self, account: OpenAccount, client: ScraperClient) -> None:
        """Resolve lost answers first, for what is planned again goes out with the rest, which waits for no listing."""
        policy = account.policy()
        try:
            await resolve_lost_answers(account.ledger, client, policy, seconds=RESOLUTION_SECONDS)
        except ScraperError as error:
            if error.scope == "account" and not isinstance(error, Throttled):
                raise
            self.context.log.warning(
                f"{self.accounts.told(account.name)}Lost answers could not be resolved: {error}"
            )

    def _show_chunk(self, account: OpenAccount, day: str, holder: str, report: SubmissionReport) -> None:
        run_lease = account.policy().run_lease
        account.ledger.leases.take(SUBMIT_LEASE, day, holder, run_lease, force=True)
        waits = " The account has no free place: waiting for one." if Bound.PLACES in report.held_by else ""
        named = f"{self.accounts.told(account.name)}{day}"
        self.context.log.info(f"{named}: {report.accepted} accepted so far.{waits}")


def _tell(context: dg.AssetExecutionContext, report: SubmissionReport) -> None:
    """Say in the run's log what was out of the ordinary."""
    if report.held_by:
        context.log.warning(f"The rest stays planned, held by {', '.join(sorted(report.held_by))}.")
    if report.unbounded_because:
        context.log.warning(
            "Single jobs were sent without regard to the account's limit of work at once, for the service did not "
            f"tell it: {report.unbounded_because}"
        )
    if report.errors:
        context.log.warning(f"Answers that were no acceptance: {dict(report.errors)}")
