"""What the job ``prune_ledger`` does: the ledger forgets what the settings say is old."""

from datetime import datetime
from zoneinfo import ZoneInfo

import dagster as dg
from pydantic import Field

from scraper_pipeline.publishing import Retention, prune
from scraper_pipeline.resources import LedgerResource, PublishedPagesResource, explained_failures
from scraper_pipeline.settings import LEAST_DAYS_KEPT, load_settings


class PruneConfig(dg.Config):
    """What is dropped beside what the settings say."""

    unpublished: bool = Field(default=False, description="Drop content that no published file has, too.")
    letters_days: int | None = Field(
        default=None,
        ge=LEAST_DAYS_KEPT,
        description="Forget letters resolved longer ago, whose target was tried again or stored.",
    )


@dg.op(description="Drop content, events and deliveries that are older than the settings keep them.")
def prune_what_is_old(
    context: dg.OpExecutionContext,
    config: PruneConfig,
    ledger: LedgerResource,
    published_pages: PublishedPagesResource,
) -> None:
    with explained_failures(), ledger.open() as book:
        settings = load_settings()
        retention = Retention(
            settings.keep_content_days, settings.keep_news_days, config.letters_days, config.unpublished
        )
        today = datetime.now(ZoneInfo(settings.timezone)).date()
        report = prune(book, published_pages.open(), retention, today)
    if report.unpublished:
        context.log.warning(
            f"The content of {len(report.unpublished)} days is kept, since no published file shows all of their pages: "
            f"{', '.join(report.unpublished[:31])}. Launch publish_pages for them."
        )
    if report.unsettled:
        context.log.warning(
            f"The content of {len(report.unsettled)} days is kept, since targets of them are still waited for: "
            f"{', '.join(report.unsettled[:31])}."
        )
    context.add_output_metadata(
        {
            "pages": report.pages,
            "days": len(report.days),
            "unpublished_days": len(report.unpublished),
            "unsettled_days": len(report.unsettled),
            **report.traces.__dict__,
        }
    )
