"""What holds submission up, kept in the ledger for whoever asks for runs, and shown on the asset ``submitted_jobs``."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dagster as dg

from scraper_pipeline.accounts import Accounts, OpenAccount
from scraper_pipeline.assets.figures import spending_figures
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.lifecycle import EVERYWHERE, HELD_LEASE, pages_left, stops_account
from scraper_pipeline.resources import ScraperResource, explained_failures
from scraper_pipeline.scraper_api import ScraperError

REFUSED_LEASE = "refused"
REFUSED_SECONDS = 600.0
HELD_SECONDS = 100 * 365 * 86400.0
_NOTHING_LOST = "Nothing is lost: what was not accepted is still planned."
Context = dg.AssetExecutionContext | dg.OpExecutionContext


def hold_days(accounts: Iterable[OpenAccount], days: Iterable[str]) -> None:
    """Leave what is planned of these days to whoever launches the next run; a run may be killed at any moment."""
    for account in accounts:
        for day in days:
            account.ledger.leases.take(HELD_LEASE, day, HELD_LEASE, HELD_SECONDS, force=True)


def hold_if_bounded(context: dg.AssetExecutionContext, accounts: Accounts) -> None:
    """Hold the days of a run with ``max_pages`` before they are planned: the sensor looks every few seconds."""
    asked: Any = context.run.run_config
    for name in ("ops", "submitted_jobs", "config", "max_pages"):
        asked = asked.get(name) if isinstance(asked, Mapping) else None
    if asked is not None:
        hold_days(accounts, context.partition_keys)


@contextmanager
def pausing_after_refusals(ledger: Ledger) -> Iterator[None]:
    """Keep the sensor from asking for more of an account's submissions for a while after a refusal, as by 401 or 402.

    The ledger is that of the account.
    """
    try:
        yield
    except ScraperError as error:
        if stops_account(error):
            ledger.leases.take(REFUSED_LEASE, EVERYWHERE, REFUSED_LEASE, REFUSED_SECONDS, force=True)
        raise
    ledger.leases.drop(REFUSED_LEASE, EVERYWHERE, REFUSED_LEASE)


def is_refused(account: OpenAccount) -> bool:
    """Whether the service has refused the account within the last minutes."""
    return EVERYWHERE in account.ledger.leases.live(REFUSED_LEASE)


def show_what_waits(context: Context, accounts: Accounts) -> None:
    """Report the check ``nothing_waits`` from within a run whose own checks may be skipped."""
    check = check_waiting(accounts)
    evaluation = dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey("submitted_jobs"),
        check_name="nothing_waits",
        passed=check.passed,
        severity=check.severity,
        metadata=check.metadata,
        description=check.description,
    )
    context.log_event(evaluation)  # type: ignore[arg-type]  # it takes evaluations of checks, too


@dg.asset_check(
    asset="submitted_jobs",
    description="No target waits for want of balance, a valid key, or room within a page limit.",
)
def nothing_waits(scraper: ScraperResource) -> dg.AssetCheckResult:
    with explained_failures(), scraper.open() as accounts:
        return check_waiting(accounts)


def check_waiting(accounts: Accounts) -> dg.AssetCheckResult:
    """Whether anything but the service's own pace keeps due targets planned, over all days, and what to do then."""
    waiting, is_any_refused, said, figures = 0, False, [], dict[str, int]()
    for account in accounts:
        pending = {one.partition_key: one.pending for one in account.ledger.progress.partitions_to_submit()}
        left, named = pages_left(account.ledger, account.policy()), accounts.told(account.name)
        held = sorted(pending.keys() & account.ledger.leases.live(HELD_LEASE))
        waiting += sum(pending.values())
        figures |= spending_figures(left, account.name)
        if is_refused(account):
            is_any_refused = True
            said.append(f"{named}The service refused the account: check the key, or top up the balance.")
        if pending and left.used_up:
            said.append(f"{named}{left.used_up} is used up.")
        if held:
            said.append(
                f"{named}`max_pages` of a run has left targets planned: launch submit_jobs for {', '.join(held[:5])}"
                + (f" and {len(held) - 5} days more." if len(held) > 5 else ".")
            )
    return dg.AssetCheckResult(
        passed=not said,
        severity=dg.AssetCheckSeverity.ERROR if is_any_refused else dg.AssetCheckSeverity.WARN,
        description=" ".join([*said, f"{waiting} targets wait.", _NOTHING_LOST]) if said else None,
        metadata={"waiting": waiting, **figures},
    )
