"""A small site to scrape: varied pages in several scripts, and a few that fail in a known way."""

from scraper_pipeline.sandbox.site.routes import MOUNTED_AT, Site
from scraper_pipeline.sandbox.site.targets import site_targets

__all__ = ["MOUNTED_AT", "Site", "site_targets"]
