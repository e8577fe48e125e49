"""The days that everything is partitioned by: calendar days in the configured time zone, today included."""

import dagster as dg

from scraper_pipeline.settings import load_settings

_settings = load_settings()

# Without the offset a day could only be worked on once it is over.
DAYS = dg.DailyPartitionsDefinition(
    start_date=_settings.start_date.isoformat(), end_offset=1, timezone=_settings.timezone
)
