"""The accounts that the pipeline works for, opened from the settings: keys, limits, ledgers, lists. Free of Dagster."""

from scraper_pipeline.accounts.accounts import (
    Account,
    Accounts,
    OpenAccount,
    known_account,
    named_accounts,
    open_client,
    side_by_side,
)
from scraper_pipeline.accounts.client import lifecycle_policy
from scraper_pipeline.accounts.costs import compare_span
from scraper_pipeline.accounts.file import as_told_of
from scraper_pipeline.accounts.letters import retry_in_turn
from scraper_pipeline.accounts.opening import lists_of, open_accounts, open_ledger

__all__ = [
    "Account",
    "Accounts",
    "OpenAccount",
    "as_told_of",
    "compare_span",
    "known_account",
    "lifecycle_policy",
    "lists_of",
    "named_accounts",
    "open_accounts",
    "open_client",
    "open_ledger",
    "retry_in_turn",
    "side_by_side",
]
