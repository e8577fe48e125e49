"""The assets ``stored_results`` and ``dead_letters``: what became of a day's jobs, decided by one commit."""

from collections.abc import Generator, Iterator, Sequence
from typing import Any

import dagster as dg

from scraper_pipeline.accounts import Accounts, OpenAccount
from scraper_pipeline.assets.figures import checked_days, letter_figures, result_figures
from scraper_pipeline.assets.submissions import POOL
from scraper_pipeline.assets.targets import OWNERS
from scraper_pipeline.ledger import JobOutcome, Ledger
from scraper_pipeline.lifecycle import Drain, LifecyclePolicy, Settlement
from scraper_pipeline.partitions import DAYS, ONE_RUN
from scraper_pipeline.resources import (
    OF_AN_ACCOUNT,
    LedgerResource,
    ScraperResource,
    Setbacks,
    explained_failures,
    traced_step,
)

IO_MANAGER = "idempotency_io_manager"
MOST_PARKED = 0.10


@dg.op(
    ins={"submitted_jobs": dg.In(dg.Nothing)},
    out=dg.Out(
        io_manager_key=IO_MANAGER,
        description="Outcomes of jobs, chunk by chunk; nothing is stored unless the IO manager consumes them.",
    ),
    pool=POOL,
)
def settle(
    context: dg.OpExecutionContext, scraper: ScraperResource
) -> Iterator[dg.Output[Iterator[Sequence[JobOutcome]]]]:
    """Hands the IO manager a stream of outcomes, which drains news until it has been quiet for a while."""
    yield dg.Output(_outcomes(context, scraper))


def _outcomes(context: dg.OpExecutionContext, scraper: ScraperResource) -> Iterator[Sequence[JobOutcome]]:
    with traced_step(context, "settle"), scraper.open() as accounts:
        days = list(context.partition_keys)
        drain = Drain({one.name: settlement_of(one, days, one.policy()) for one in accounts}, OF_AN_ACCOUNT)
        setbacks = yield from settle_all(accounts, drain, context)
        setbacks.tell()


def settle_all(
    accounts: Accounts, drain: Drain, context: dg.OpExecutionContext
) -> Generator[Sequence[JobOutcome], None, Setbacks]:
    """The outcomes of a drain; at its end the log is told what it took, and what stopped some accounts is returned."""
    yield from drain.outcomes()
    for name, settlement in drain.settlements.items():
        if settlement.unresolved_because:
            context.log.warning(
                f"{accounts.told(name)}Lost answers could not be resolved: {settlement.unresolved_because}"
            )
    context.log.info(f"Drained with {drain.requests_made} requests.")
    setbacks = Setbacks(accounts.are_several)
    setbacks.note_all(drain.stopped)
    return setbacks


def settlement_of(account: OpenAccount, days: Sequence[str], policy: LifecyclePolicy) -> Settlement:
    """The settlement of an account's part of some days."""
    return Settlement(account.ledger, account.open_client, days, policy)


@dg.op(
    ins={"settled": dg.In(dg.Nothing)},
    out={
        "stored_results": dg.Out(dg.Nothing, is_required=False, io_manager_key=IO_MANAGER),
        "dead_letters": dg.Out(dg.Nothing, is_required=False, io_manager_key=IO_MANAGER),
    },
)
def conclude(context: dg.AssetExecutionContext, ledger: LedgerResource) -> Iterator[dg.Output[None]]:
    """Lets a day materialise only if nothing of it is in flight; otherwise shows how far it is."""
    with explained_failures(), ledger.open() as book:
        shown = {day: day_figures(book, day) for day in context.partition_keys}
    settled = {day for day, assets in shown.items() if assets["stored_results"]["in_flight"] == 0}
    if settled == shown.keys():
        for day, assets in shown.items():
            for name, figures in assets.items():
                context.add_asset_metadata(figures, asset_key=name, partition_key=day)
        yield dg.Output(None, "stored_results")
        yield dg.Output(None, "dead_letters")
        return
    for day, assets in shown.items():
        event = dg.AssetMaterialization if day in settled else dg.AssetObservation
        for name, figures in assets.items():
            context.log_event(event(name, partition=day, metadata=figures))


def day_figures(ledger: Ledger, day: str) -> dict[str, dict[str, Any]]:
    """What both assets show of a day."""
    return {
        "stored_results": dict(result_figures(ledger, day)),
        "dead_letters": dict(letter_figures(ledger, day)),
    }


@dg.graph_multi_asset(
    name="settlement",
    ins={"submitted_jobs": dg.AssetIn("submitted_jobs")},
    outs={
        "stored_results": dg.AssetOut(
            owners=OWNERS,
            kinds={"sql"},
            description=(
                "The pages of a day, each stored once. Green when nothing of the day is in flight any more. Until "
                "then the observations show how far it is; settle runs go on by themselves, and each takes up what "
                "the last one left. Read it as a data frame, or from the view `current_results`."
            ),
        ),
        "dead_letters": dg.AssetOut(
            owners=OWNERS,
            kinds={"sql"},
            description=(
                "The targets of a day that were given up, with the reason; a healthy day has few. Look at "
                "`top_reasons` in the metadata. To try all again, run submit_jobs for the day with `resubmit: failed`; "
                "to retry or discard some, run retry_dead_letters or discard_dead_letters."
            ),
        ),
    },
    partitions_def=DAYS,
    backfill_policy=ONE_RUN,
    group_name="results",
)
def settlement(submitted_jobs: dg.Nothing) -> dict[str, dg.Output[None]]:  # type: ignore[valid-type]
    concluded = conclude(settle(submitted_jobs))
    return {"stored_results": concluded.stored_results, "dead_letters": concluded.dead_letters}


@dg.asset_check(
    asset="stored_results",
    blocking=True,
    description="Nothing is in flight, every stored target has its page and every parked one its letter.",
)
def complete(context: dg.AssetCheckExecutionContext, ledger: LedgerResource) -> dg.AssetCheckResult:
    with explained_failures(), ledger.open() as book:
        return check_complete(book, checked_days(context, book))


def check_complete(ledger: Ledger, days: Sequence[str]) -> dg.AssetCheckResult:
    """Whether nothing of these days is in flight, and every target has what its state says."""
    in_flight = sum(ledger.progress.of(day).in_flight for day in days)
    violations = [violation for day in days for violation in ledger.audit.check_complete(day)]
    return dg.AssetCheckResult(
        asset_key="stored_results",
        check_name="complete",
        passed=not in_flight and not violations,
        metadata={"in_flight": in_flight, "violations": len(violations), "days": ", ".join(days[:31])},
    )


@dg.asset_check(
    asset="stored_results",
    blocking=True,
    description="No page is stored twice, and none without its submission.",
)
def stored_once(context: dg.AssetCheckExecutionContext, ledger: LedgerResource) -> dg.AssetCheckResult:
    with explained_failures(), ledger.open() as book:
        return check_stored_once(book, checked_days(context, book))


def check_stored_once(ledger: Ledger, days: Sequence[str]) -> dg.AssetCheckResult:
    """Whether no page of these days is stored twice, or without its submission."""
    violations = [violation for day in days for violation in ledger.audit.check_stored_once(day)]
    return dg.AssetCheckResult(
        asset_key="stored_results",
        check_name="stored_once",
        passed=not violations,
        metadata={"violations": len(violations), "days": ", ".join(days[:31])},
    )


@dg.asset_check(
    asset="dead_letters",
    description=f"At most {MOST_PARKED:.0%} of the targets are parked: more means that something is wrong as a whole.",
)
def share_of_parked_targets(
    context: dg.AssetCheckExecutionContext, ledger: LedgerResource
) -> dg.AssetCheckResult:
    with explained_failures(), ledger.open() as book:
        days = checked_days(context, book)
        targets = sum(book.progress.of(day).targets for day in days)
        parked = sum(sum(book.progress.letters_by_code(day).values()) for day in days)
    share = parked / targets if targets else 0.0
    return dg.AssetCheckResult(
        passed=share <= MOST_PARKED,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"parked": parked, "targets": targets, "share": share, "days": ", ".join(days[:31])},
    )
