"""Dagster resources around the accounts, the ledger and the target lists."""

from scraper_pipeline.resources.accounts import (
    Account,
    Accounts,
    OpenAccount,
    known_account,
    named_accounts,
    open_client,
    side_by_side,
)
from scraper_pipeline.resources.accounts_file import as_told_of
from scraper_pipeline.resources.client import lifecycle_policy
from scraper_pipeline.resources.failures import OF_AN_ACCOUNT, Setbacks, explained_failures
from scraper_pipeline.resources.ledger import LedgerResource, open_ledger
from scraper_pipeline.resources.published_pages import PublishedPagesResource
from scraper_pipeline.resources.scraper import ScraperResource, open_accounts
from scraper_pipeline.resources.target_lists import TargetListResource, lists_of
from scraper_pipeline.resources.tracing import traced_step, traced_tick
from scraper_pipeline.resources.webhook_secrets import WebhookSecretsResource

__all__ = [
    "OF_AN_ACCOUNT",
    "Account",
    "Accounts",
    "LedgerResource",
    "OpenAccount",
    "PublishedPagesResource",
    "ScraperResource",
    "Setbacks",
    "TargetListResource",
    "WebhookSecretsResource",
    "as_told_of",
    "explained_failures",
    "known_account",
    "lifecycle_policy",
    "lists_of",
    "named_accounts",
    "open_accounts",
    "open_client",
    "open_ledger",
    "side_by_side",
    "traced_step",
    "traced_tick",
]
