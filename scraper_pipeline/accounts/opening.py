"""What the settings name, opened: the ledger, the accounts with their parts of it, and the lists of targets."""

from scraper_pipeline.accounts.accounts import Accounts, named_accounts
from scraper_pipeline.ledger import Ledger, ResubmissionPolicy
from scraper_pipeline.settings import Settings
from scraper_pipeline.target_lists import TargetList, load_target_lists


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


def open_accounts(settings: Settings) -> Accounts:
    """The accounts of these settings. Raises SettingsError and LedgerError."""
    return Accounts(named_accounts(settings), open_ledger(settings))


def lists_of(settings: Settings) -> tuple[TargetList, ...]:
    """The lists of these settings, each of one of their accounts. Raises TargetListError and SettingsError."""
    return load_target_lists(settings.targets, [account.name for account in named_accounts(settings)])
