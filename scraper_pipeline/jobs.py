"""The runs that sensors, schedules and people ask for."""

import dagster as dg

from scraper_pipeline.assets.results import settlement
from scraper_pipeline.assets.submissions import submitted_jobs
from scraper_pipeline.assets.targets import targets

# Well above the budget of a drain: a run that is older hangs, and is ended by run monitoring.
_MAX_RUNTIME = {"dagster/max_runtime": "1800"}

submit_jobs = dg.define_asset_job(
    "submit_jobs",
    selection=dg.AssetSelection.assets(targets, submitted_jobs),
    tags=_MAX_RUNTIME,
    description="Plan a day's targets and submit what is planned. Running it again submits nothing twice.",
)

settle_jobs = dg.define_asset_job(
    "settle_jobs",
    selection=dg.AssetSelection.assets(settlement),
    tags=_MAX_RUNTIME,
    description="Store what has ended of a day's jobs, until news has been quiet for a while. Asked for by the sensor.",
)
