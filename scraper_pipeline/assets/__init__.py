"""The assets: targets become jobs, jobs become stored results or dead letters, day by day."""

from scraper_pipeline.assets.results import (
    complete,
    settlement,
    share_of_empty_pages,
    share_of_parked_targets,
    stored_once,
)
from scraper_pipeline.assets.submissions import submitted_jobs
from scraper_pipeline.assets.targets import targets

ASSETS = [targets, submitted_jobs, settlement]
CHECKS = [complete, stored_once, share_of_empty_pages, share_of_parked_targets]

__all__ = ["ASSETS", "CHECKS"]
