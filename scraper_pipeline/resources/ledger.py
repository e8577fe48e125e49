"""The ledger as a Dagster resource."""

import dagster as dg

from scraper_pipeline.accounts import open_ledger
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.settings import load_settings


class LedgerResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the ledger that SCRAPER_LEDGER_URL names.

    It has no configuration of its own: what Dagster's UI shows of a resource must hold no password.
    """

    def open(self) -> Ledger:
        """The ledger, its schema brought up to date; close it, or use it as a context manager."""
        return open_ledger(load_settings())
