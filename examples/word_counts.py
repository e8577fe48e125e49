"""A project downstream of the pipeline: how many words each day's pages have, by host, as a CSV file a day.

It is a code location of its own, which knows of ``stored_results`` no more than its name, its days and who loads it:

    dagster dev -m scraper_pipeline.definitions -m examples.word_counts
"""

from pathlib import Path
from urllib.parse import urlsplit

import dagster as dg
import pandas as pd

from scraper_pipeline.io_managers import IdempotencyIOManager
from scraper_pipeline.partitions import DAYS, ONE_RUN

stored_results = dg.AssetSpec("stored_results", partitions_def=DAYS).with_io_manager_key(
    "pages_of_the_ledger"
)


class Reports(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The folder that the reports are written to."""

    folder: str = "var/word_counts"

    def write(self, day: str, report: pd.DataFrame) -> Path:
        path = Path(self.folder) / f"{day}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        report.to_csv(path, index=False)
        return path


@dg.asset(
    partitions_def=DAYS,
    backfill_policy=ONE_RUN,
    # The data frame has these columns and no others: the pages' HTML stays in the database.
    ins={"stored_results": dg.AssetIn(metadata={"columns": ["partition_key", "url", "markdown"]})},
    # Of days of any age, for late results come to old ones. Its sensor is off until it is switched on in the UI.
    automation_condition=dg.AutomationCondition.eager().without(
        dg.AutomationCondition.in_latest_time_window()
    ),
    kinds={"pandas", "csv"},
    description="The words on each day's pages by host. In a backfill one data frame holds the pages of all its days.",
)
def word_counts(
    context: dg.AssetExecutionContext, reports: Reports, stored_results: pd.DataFrame
) -> dg.MaterializeResult[None]:
    pages = pd.DataFrame(
        {
            "day": stored_results["partition_key"],
            "host": [urlsplit(url).netloc for url in stored_results["url"]],
            "words": [len(text.split()) for text in stored_results["markdown"].fillna("")],
        }
    )
    for day in context.partition_keys:
        of_day = pages[pages["day"] == day]
        report = of_day.groupby("host", as_index=False).agg(pages=("words", "size"), words=("words", "sum"))
        path = reports.write(day, report)
        context.add_asset_metadata(
            {"pages": len(of_day), "words": int(of_day["words"].sum()), "path": dg.MetadataValue.path(path)},
            partition_key=day,
        )
    return dg.MaterializeResult()


defs = dg.Definitions(
    assets=[stored_results, word_counts],
    resources={"pages_of_the_ledger": IdempotencyIOManager(), "reports": Reports()},
    executor=dg.in_process_executor,
)
