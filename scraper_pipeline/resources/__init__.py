"""Dagster resources around the client, the ledger and the target lists."""

from scraper_pipeline.resources.failures import explained_failures
from scraper_pipeline.resources.ledger import LedgerResource, open_ledger
from scraper_pipeline.resources.published_pages import PublishedPagesResource
from scraper_pipeline.resources.scraper import ScraperResource, lifecycle_policy, open_client
from scraper_pipeline.resources.target_lists import TargetListResource
from scraper_pipeline.resources.tracing import traced_step, traced_tick
from scraper_pipeline.resources.webhook_secrets import WebhookSecretsResource

__all__ = [
    "LedgerResource",
    "PublishedPagesResource",
    "ScraperResource",
    "TargetListResource",
    "WebhookSecretsResource",
    "explained_failures",
    "lifecycle_policy",
    "open_client",
    "open_ledger",
    "traced_step",
    "traced_tick",
]
