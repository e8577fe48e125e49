"""The check-up behind ``scraper-pipeline doctor``: each check looks at one thing and says what to do about it."""

from scraper_pipeline.checkup.everything import check_everything
from scraper_pipeline.checkup.findings import Finding, Grade

__all__ = ["Finding", "Grade", "check_everything"]
