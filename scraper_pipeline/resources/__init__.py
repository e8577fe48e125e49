"""Dagster resources around the accounts, the ledger and the target lists."""

from scraper_pipeline.resources.failures import OF_AN_ACCOUNT, Setbacks, explained_failures
from scraper_pipeline.resources.ledger import LedgerResource
from scraper_pipeline.resources.published_pages import PublishedPagesResource
from scraper_pipeline.resources.scraper import ScraperResource
from scraper_pipeline.resources.target_lists import TargetListResource
from scraper_pipeline.resources.tracing import traced_step, traced_tick
from scraper_pipeline.resources.webhook_secrets import WebhookSecretsResource

__all__ = [
    "OF_AN_ACCOUNT",
    "LedgerResource",
    "PublishedPagesResource",
    "ScraperResource",
    "Setbacks",
    "TargetListResource",
    "WebhookSecretsResource",
    "explained_failures",
    "traced_step",
    "traced_tick",
]
