"""What can go wrong with the ledger itself, in words that say what the operator can do."""


class LedgerError(Exception):
    """Base of the ledger's errors."""


class LedgerUnavailable(LedgerError):
    """The database can't be reached or opened."""


class LedgerTooNew(LedgerError):
    """The schema was migrated by a newer release than this code."""


class LedgerConflict(LedgerError):
    """A guarded transition touched other rows than those that its transaction had locked: nothing was committed."""
