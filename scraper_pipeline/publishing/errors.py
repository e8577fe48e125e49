"""What can go wrong between the ledger and a file."""


class PublishingError(Exception):
    """Pages could not be written; one line says which and where, and what the operator can do."""


class ContentPruned(PublishingError):
    """The ledger has dropped what the file would have to hold: the file that was made before is the best there is."""
