"""What can go wrong between the ledger and a file."""


class PublishingError(Exception):
    """Pages could not be written; one line says which and where, and what the operator can do."""
