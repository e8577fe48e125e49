"""The asset ``pages``: the stored pages of a day as a Parquet file, for whoever reads them elsewhere."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from scraper_pipeline.assets.results import IO_MANAGER, check_complete, check_stored_once
from scraper_pipeline.assets.targets import OWNERS
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.partitions import DAYS, ONE_RUN
from scraper_pipeline.publishing import ContentPruned, Publication, publish_pages
from scraper_pipeline.resources import LedgerResource, PublishedPagesResource, explained_failures

_AUTOMATION_TAG = "dagster/from_automation_condition"  # Dagster's own, on each run that a condition asked for
_WHEN = dg.AutomationCondition

# Of any day, not only of the newest: late results come to old ones. What becomes true during a publication stays true
# until it is asked for, and so does what became true between two looks, of which the first has asked for a publication
# that may have begun too early: nothing is missed. The blocking checks are asked for each day in the asset itself: as a
# condition they would be those of whatever day was checked last.
WHEN_A_DAY_IS_DONE = (
    (
        _WHEN.newly_missing()
        | _WHEN.any_deps_updated()
        | (_WHEN.execution_failed() & _WHEN.cron_tick_passed("*/30 * * * *")).with_label("failed_a_while_ago")
    ).since((_WHEN.newly_requested() & ~_WHEN.any_deps_updated()).with_label("asked_for_as_it_is"))
    & ~_WHEN.any_deps_missing()
    & ~_WHEN.any_deps_in_progress()
    & ~_WHEN.in_progress()
).with_label("when_a_day_is_done")


@dg.asset(
    partitions_def=DAYS,
    backfill_policy=ONE_RUN,
    deps=["stored_results"],
    group_name="results",
    owners=OWNERS,
    kinds={"parquet"},
    io_manager_key=IO_MANAGER,
    output_required=False,
    automation_condition=WHEN_A_DAY_IS_DONE,
    description=(
        "The pages of a day as one Parquet file below SCRAPER_PAGES_URL, for pandas, DuckDB, polars and the like. "
        "Published by itself when the day is done, and again when late results come; a file that shows the day "
        "already is left alone (`changed` is false). It never fails halfway: readers see the old file or the new one. "
        "When it fails, the message says what the folder or the store objects to; it is tried again every half "
        "hour. A day that is not done is published by hand only."
    ),
)
def pages(
    context: dg.AssetExecutionContext, ledger: LedgerResource, published_pages: PublishedPagesResource
) -> Iterator[dg.MaterializeResult[None]]:
    days, is_automatic = list(context.partition_keys), _AUTOMATION_TAG in context.run.tags
    shown: dict[str, dict[str, Any]] = {}
    with explained_failures(), ledger.open() as book:
        place = published_pages.open()
        for day in days:
            if reason := _why_not(book, day):
                context.log.warning(f"{day} {reason}{'; it is not published' if is_automatic else ''}.")
                if is_automatic:
                    _observe(context, book, day)
                    continue
            try:
                publication = publish_pages(book, place, day)
            except ContentPruned as error:
                if not is_automatic:
                    raise
                context.log.warning(str(error))
                _observe(context, book, day)
                continue
            _tell(context, publication)
            shown[day] = _figures(book, publication)
    if shown.keys() == set(days):
        for day, figures in shown.items():
            context.add_asset_metadata(figures, asset_key="pages", partition_key=day)
        yield dg.MaterializeResult()
        return
    for day, figures in shown.items():
        context.log_event(dg.AssetMaterialization("pages", partition=day, metadata=figures))


def _observe(context: dg.AssetExecutionContext, ledger: Ledger, day: str) -> None:
    """Report a day whose file is left as it is; a failure would be tried again every half hour, to no avail."""
    figures = {"in_flight": ledger.progress.of(day).in_flight}
    context.log_event(dg.AssetObservation("pages", partition=day, metadata=figures))


def _why_not(ledger: Ledger, day: str) -> str | None:
    """Why the day should not be published; None if it should."""
    if not check_complete(ledger, [day]).passed:
        return "is not done, or lacks a page or a letter of what is"
    if not check_stored_once(ledger, [day]).passed:
        return "has a page stored twice, or without its submission"
    return None


def _tell(context: dg.AssetExecutionContext, publication: Publication) -> None:
    what = "published" if publication.changed else "published already, and the same"
    context.log.info(f"{publication.day}: {publication.rows} pages, {publication.size} bytes, {what}.")


def _figures(ledger: Ledger, publication: Publication) -> dict[str, Any]:
    schema = dg.TableSchema(
        [dg.TableColumn(column.name, column.type.value) for column in publication.columns]
    )
    return {
        "rows": publication.rows,
        "bytes": publication.size,
        "columns": len(publication.columns),
        "changed": publication.changed,
        "in_flight": ledger.progress.of(publication.day).in_flight,
        "ledger_revision": publication.revision,
        "path": dg.MetadataValue.path(publication.location),
        "dagster/column_schema": schema,
    }
