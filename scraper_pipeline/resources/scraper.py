"""The Scraper API as a Dagster resource: the accounts with it."""

import dagster as dg

from scraper_pipeline.resources.accounts import Accounts, named_accounts
from scraper_pipeline.resources.ledger import open_ledger
from scraper_pipeline.settings import Settings, load_settings


class ScraperResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the account that GEONODE_SCRAPER_API_KEY is for, and those that SCRAPER_ACCOUNTS_FILE names."""

    def open(self) -> Accounts:
        """The accounts with their ledgers; close them, or use them as a context manager. Raises SettingsError."""
        return open_accounts(load_settings())


def open_accounts(settings: Settings) -> Accounts:
    """The accounts of these settings. Raises SettingsError and LedgerError."""
    return Accounts(named_accounts(settings), open_ledger(settings))
