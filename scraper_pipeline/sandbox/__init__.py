"""A local stand-in for the scraping service, with a small site to scrape and faults to order.

It shares no code with the project's client, so that one misreading of the contract cannot hide in both.
"""

from scraper_pipeline.sandbox.app import create_app
from scraper_pipeline.sandbox.config import SandboxConfig
from scraper_pipeline.sandbox.faults import Faults
from scraper_pipeline.sandbox.server import SandboxServer, serve
from scraper_pipeline.sandbox.site import site_targets

__all__ = ["Faults", "SandboxConfig", "SandboxServer", "create_app", "serve", "site_targets"]
