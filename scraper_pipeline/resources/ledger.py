"""The ledger as a Dagster resource."""

import dagster as dg

from scraper_pipeline.ledger import Ledger, ResubmissionPolicy
from scraper_pipeline.resources.accounts import named_accounts
from scraper_pipeline.settings import Settings, load_settings


class LedgerResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the ledger that SCRAPER_LEDGER_URL names.

    It has no configuration of its own: what Dagster's UI shows of a resource must hold no password.
    """

    def open(self) -> Ledger:
        """The ledger, its schema brought up to date; close it, or use it as a context manager."""
        return open_ledger(load_settings())


def open_ledger(settings: Settings) -> Ledger:
    """The ledger of these settings; over all accounts, if there are several, and then it only reads.

    Accounts that have rows and are named no more are among them. Raises LedgerError and SettingsError.
    """
    names = [account.name for account in named_accounts(settings)]
    ledger = Ledger.open(
        settings.ledger_url.get_secret_value(),
        resubmission=ResubmissionPolicy(max_attempts=settings.max_attempts),
    )
    if settings.accounts_file is None:
        return ledger
    return ledger.of_account(*dict.fromkeys([*names, *ledger.progress.accounts()]))
