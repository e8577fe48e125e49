"""The asset ``targets``: what a day is asked to scrape, list by list."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import dagster as dg
from pydantic import Field

from scraper_pipeline.accounts import Accounts
from scraper_pipeline.assets.figures import checked_days, preview, progress_figures
from scraper_pipeline.assets.holding import hold_if_bounded
from scraper_pipeline.ledger import Ledger, PlannedList, PlanReport, Target
from scraper_pipeline.partitions import DAYS, ONE_RUN
from scraper_pipeline.resources import LedgerResource, ScraperResource, TargetListResource, explained_failures
from scraper_pipeline.target_lists import Duplicate, Rejected, TargetList, TargetListError

OWNERS = ["team:data-engineering"]
MOST_CHANGED = 0.30
_REPORTED = 20


class TargetsConfig(dg.Config):
    """Which lists a run plans."""

    lists: list[str] = Field(
        default=[],
        description="The lists of targets.yaml that are planned, by name; all of them if none is named.",
    )


@dataclass
class _Planning:
    """One list being planned for one day: it passes the good targets on, and keeps count of the rest."""

    target_list: TargetList
    day: str
    kinds: Counter[str] = field(default_factory=Counter)
    problems: list[dict[str, Any]] = field(default_factory=list)
    report: PlanReport = field(default_factory=lambda: PlanReport(0, 0))
    error: str | None = None

    def run(self, accounts: Accounts) -> None:
        """Plan the list for its account; what keeps it from being read to its end keeps no other from being planned."""
        ledger = accounts[self.target_list.account].ledger
        for other in accounts:
            if other.name != self.target_list.account:
                other.ledger.lists.leave(self.day, self.target_list.name)
        try:
            self.report = ledger.submissions.plan(self.day, self._targets(), self.target_list.terms)
        except TargetListError as error:
            ledger.lists.fail(self.day, self.target_list.name)
            self.error = str(error)

    def tell(self, context: dg.AssetExecutionContext) -> None:
        """Say in the run's log what was out of the ordinary."""
        title = self.target_list.title(date.fromisoformat(self.day))
        if self.error:
            context.log.error(self.error)
        elif not self.kinds["Target"]:
            context.log.warning(f"{title} has no usable target: nothing was planned for {self.day}.")
        if self.report.beyond_budget:
            context.log.warning(
                f"{title}: {self.report.beyond_budget} targets are beyond its budget; {self.day} goes without them."
            )
        for problem in self.problems:
            context.log.warning(f"{title}, line {problem['line']}: {problem['reason']}")

    def _targets(self) -> Iterator[Target]:
        for entry in self.target_list.read(date.fromisoformat(self.day)):
            self.kinds[type(entry).__name__] += 1
            if isinstance(entry, Target):
                yield entry
            elif len(self.problems) < _REPORTED:
                self.problems.append(self._problem(entry))

    def _problem(self, entry: Rejected | Duplicate) -> dict[str, Any]:
        reason = entry.reason if isinstance(entry, Rejected) else f"the same as line {entry.first_line}"
        named = {"list": self.target_list.name} if self.target_list.is_named else {}
        return {**named, "line": entry.line, "reason": reason}


@dg.asset(
    partitions_def=DAYS,
    backfill_policy=ONE_RUN,
    group_name="intake",
    owners=OWNERS,
    kinds={"csv"},
    io_manager_key="idempotency_io_manager",
    description=(
        "The targets of a day: every URL of its lists, with its options, planned once. A list that was edited later "
        "adds targets and withdraws none. A past day scrapes today's web. When it fails, the message says which file "
        "or column is wrong; lines that can't be used are listed by number in the metadata, and the good ones go on, "
        "as do the other lists. What a list's budget has no room for is counted as `beyond_budget` and not planned."
    ),
)
def targets(
    context: dg.AssetExecutionContext,
    config: TargetsConfig,
    scraper: ScraperResource,
    target_list: TargetListResource,
) -> Iterator[dg.AssetObservation | dg.AssetMaterialization | dg.MaterializeResult[None]]:
    with explained_failures(), scraper.open() as accounts:
        book = accounts.ledger
        hold_if_bounded(context, accounts)
        days = list(context.partition_keys)
        lists = _open_lists(target_list, accounts, days, config)
        plannings = [_Planning(one, day) for day in days for one in lists]
        for planning in plannings:
            planning.run(accounts)
            planning.tell(context)
        shown = {day: _figures(book, day, [one for one in plannings if one.day == day]) for day in days}
        failed, errors = (
            {one.day for one in plannings if one.error},
            [one.error for one in plannings if one.error],
        )
        if errors:
            for day, figures in shown.items():  # what is logged, and not yielded, a failure takes with it
                event = dg.AssetObservation if day in failed else dg.AssetMaterialization
                yield event("targets", partition=day, metadata=figures)
            raise TargetListError("; ".join(dict.fromkeys(errors)))
    for day, figures in shown.items():
        context.add_asset_metadata(figures, asset_key="targets", partition_key=day)
    yield dg.MaterializeResult()


def _open_lists(
    resource: TargetListResource, accounts: Accounts, days: Sequence[str], config: TargetsConfig
) -> Sequence[TargetList]:
    try:
        return resource.lists(config.lists)
    except TargetListError:
        for day in days:  # so that the sensor goes on with what is planned
            for name in config.lists:
                for account in accounts:
                    account.ledger.lists.fail(day, name)
        raise


def _figures(ledger: Ledger, day: str, plannings: Sequence[_Planning]) -> dict[str, Any]:
    """What the asset shows of a day: of this run, and of all lists that were planned for it so far."""
    planned, now = ledger.lists.planned(day), {one.target_list.name: one.report.planned for one in plannings}
    return {
        **progress_figures(ledger, day),
        "planned_now": sum(now.values()),
        "planned_before": sum(one.report.already_there for one in plannings),
        "beyond_budget": sum(one.beyond_budget for one in planned),
        "rejected_lines": sum(one.kinds["Rejected"] for one in plannings),
        "duplicate_lines": sum(one.kinds["Duplicate"] for one in plannings),
        "lists": preview(
            [
                {
                    "list": one.name,
                    "targets": one.targets,
                    "planned_now": now.get(one.name, 0),
                    "most_pages": one.pages,
                    "beyond_budget": one.beyond_budget,
                }
                for one in planned
            ]
        ),
        "problems": preview([problem for one in plannings for problem in one.problems]),
        "preview": preview(ledger.progress.submissions_preview(day)),
    }


@dg.asset_check(
    asset="targets",
    description=(
        f"No list is more than {MOST_CHANGED:.0%} longer or shorter than on the last day that it was planned for: "
        "more than that is often a broken export. What was planned goes on all the same."
    ),
)
def lists_keep_their_size(
    context: dg.AssetCheckExecutionContext, ledger: LedgerResource
) -> dg.AssetCheckResult:
    with explained_failures(), ledger.open() as book:
        return check_sizes(book, checked_days(context, book))


def check_sizes(ledger: Ledger, days: Sequence[str]) -> dg.AssetCheckResult:
    """Whether each list of these days is about as long as it was the time before."""
    compared = [(day, one) for day in days for one in ledger.lists.planned(day) if one.day_before]
    changed = [(day, one) for day, one in compared if abs(_change(one)) > MOST_CHANGED]
    return dg.AssetCheckResult(
        passed=not changed,
        severity=dg.AssetCheckSeverity.WARN,
        description=" ".join(_told(day, one) for day, one in changed[:_REPORTED]) or None,
        metadata={
            "lists_compared": len(compared),
            "lists_changed": len(changed),
            "largest_change": max((abs(_change(one)) for _, one in compared), default=0.0),
            "lists": preview(
                [
                    {
                        "day": day,
                        "list": one.name,
                        "targets": one.targets,
                        "day_before": one.day_before,
                        "targets_before": one.targets_before,
                        "change": round(_change(one), 3),
                    }
                    for day, one in compared
                ]
            ),
        },
    )


def _change(planned: PlannedList) -> float:
    """The change of a list's length as a share of what it was; one that was empty has grown by all that it has."""
    before = planned.targets_before or 0
    return (planned.targets - before) / (before or 1)


def _told(day: str, planned: PlannedList) -> str:
    return (
        f"{day}: the list {planned.name} has {planned.targets} targets, and had {planned.targets_before} on "
        f"{planned.day_before}."
    )
