"""The days that everything is partitioned by: calendar days in the configured time zone, today included."""

import warnings

import dagster as dg

from scraper_pipeline.settings import load_settings

_settings = load_settings()

# Without the offset a day could only be worked on once it is over.
DAYS = dg.DailyPartitionsDefinition(
    start_date=_settings.start_date.isoformat(), end_offset=1, timezone=_settings.timezone
)

ONE_RUN = dg.BackfillPolicy.single_run()
"""A backfill of many days is one run: a run costs seconds, a day of which nothing is missing costs none."""

# Dagster calls the parameter beta; its release is pinned, and the tests backfill a range.
warnings.filterwarnings("ignore", "Parameter `backfill_policy` of function `asset`", dg.BetaWarning)
