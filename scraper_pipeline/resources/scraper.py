"""The Scraper API as a Dagster resource: the accounts with it."""

import dagster as dg

from scraper_pipeline.accounts import Accounts, open_accounts
from scraper_pipeline.settings import load_settings


class ScraperResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the account that GEONODE_SCRAPER_API_KEY is for, and those that SCRAPER_ACCOUNTS_FILE names."""

    def open(self) -> Accounts:
        """The accounts with their ledgers; close them, or use them as a context manager. Raises SettingsError."""
        return open_accounts(load_settings())
