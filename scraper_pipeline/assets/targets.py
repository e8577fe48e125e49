"""The asset ``targets``: what a day is asked to scrape."""

from collections import Counter
from collections.abc import Iterator

import dagster as dg

from scraper_pipeline.assets.figures import preview, progress_figures
from scraper_pipeline.assets.holding import hold_if_bounded
from scraper_pipeline.ledger import Target
from scraper_pipeline.partitions import DAYS, ONE_RUN
from scraper_pipeline.resources import LedgerResource, TargetListResource, explained_failures
from scraper_pipeline.target_lists import Duplicate, Rejected

OWNERS = ["team:data-engineering"]
_REPORTED = 20


class _Reading:
    """Reads a list once, passes the good targets on, and keeps count of the rest."""

    def __init__(self, entries: Iterator[Target | Rejected | Duplicate]) -> None:
        self._entries = entries
        self.kinds = Counter[str]()
        self.problems: list[dict[str, object]] = []

    def targets(self) -> Iterator[Target]:
        for entry in self._entries:
            self.kinds[type(entry).__name__] += 1
            if isinstance(entry, Target):
                yield entry
            elif len(self.problems) < _REPORTED:
                reason = (
                    entry.reason if isinstance(entry, Rejected) else f"the same as line {entry.first_line}"
                )
                self.problems.append({"line": entry.line, "reason": reason})


@dg.asset(
    partitions_def=DAYS,
    backfill_policy=ONE_RUN,
    group_name="intake",
    owners=OWNERS,
    kinds={"csv"},
    io_manager_key="idempotency_io_manager",
    description=(
        "The targets of a day: every URL of the list, with its options, planned once. A list that was edited later "
        "adds targets and withdraws none. A past day scrapes today's web. When it fails, the message says which file "
        "or column is wrong; lines that can't be used are listed by number in the metadata, and the good ones go on."
    ),
)
def targets(
    context: dg.AssetExecutionContext, ledger: LedgerResource, target_list: TargetListResource
) -> None:
    with explained_failures(), ledger.open() as book:
        hold_if_bounded(context, book)
        for day in context.partition_keys:
            reading = _Reading(target_list.read())
            report = book.submissions.plan(day, reading.targets())
            if not reading.kinds["Target"]:
                context.log.warning(
                    f"{target_list.path.name} has no usable target: nothing was planned for {day}."
                )
            for problem in reading.problems:
                context.log.warning(f"{target_list.path.name}, line {problem['line']}: {problem['reason']}")
            context.add_asset_metadata(
                {
                    **progress_figures(book, day),
                    "planned_now": report.planned,
                    "planned_before": report.already_there,
                    "rejected_lines": reading.kinds["Rejected"],
                    "duplicate_lines": reading.kinds["Duplicate"],
                    "problems": preview(reading.problems),
                    "preview": preview(book.progress.submissions_preview(day)),
                },
                asset_key="targets",
                partition_key=day,
            )
