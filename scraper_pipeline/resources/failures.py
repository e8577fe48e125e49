"""Turns the errors that an operator can do something about into failures that say so, without a stack of frames."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import dagster as dg
from sqlalchemy.exc import DBAPIError

from scraper_pipeline.accounts import as_told_of
from scraper_pipeline.ledger import DEFAULT_ACCOUNT, LedgerError
from scraper_pipeline.publishing import PublishingError
from scraper_pipeline.scraper_api import PaymentRequired, ScraperError, Unauthorized
from scraper_pipeline.settings import SettingsError
from scraper_pipeline.target_lists import TargetListError
from scraper_pipeline.webhook_secrets import WebhookSecretsError

_ADVICE: dict[type[ScraperError], str] = {
    Unauthorized: "Check GEONODE_SCRAPER_API_KEY. Nothing is lost: what was not accepted is still planned.",
    PaymentRequired: "Top up the account's balance. Nothing is lost: what was not accepted is still planned.",
}
_NOTHING_LOST = "Nothing is lost: the ledger holds what is to be done, and the next run takes it up."
OF_AN_ACCOUNT = (ScraperError, SettingsError, dg.Failure)
"""What may stop one account while the others go on."""


@contextmanager
def explained_failures() -> Iterator[None]:
    """Raise dagster.Failure with one clear message instead of the errors that have one."""
    try:
        yield
    except ScraperError as error:
        raise dg.Failure(_explain(error), metadata={"error": type(error).__name__}) from None
    except DBAPIError as error:
        reason = (str(error.orig).strip().splitlines() or ["no reason given"])[0]
        raise dg.Failure(f"The ledger's database failed: {reason}. {_NOTHING_LOST}") from None
    except (SettingsError, TargetListError, LedgerError, WebhookSecretsError, PublishingError) as error:
        raise dg.Failure(str(error), metadata={"error": type(error).__name__}) from None


class Setbacks:
    """What stopped some of several accounts, kept until the others have had their turn.

    With ``are_several`` false nothing is kept: what stops the only account is raised where it happens.
    """

    def __init__(self, are_several: bool) -> None:
        self._are_several = are_several
        self._errors: dict[str, Exception] = {}

    def __contains__(self, account: object) -> bool:
        return account in self._errors

    @contextmanager
    def of(self, account: str) -> Iterator[None]:
        """Keep what an account is stopped by in here."""
        try:
            yield
        except OF_AN_ACCOUNT as error:
            self.note(account, error)

    def note(self, account: str, error: Exception) -> None:
        """Keep an error of an account. Raises it where it is the only account, and what is no account's matter."""
        if not self._are_several or not isinstance(error, OF_AN_ACCOUNT):
            raise error
        self._errors[account] = error

    def note_all(self, errors: Mapping[str, Exception]) -> None:
        for account, error in errors.items():
            self.note(account, error)

    @property
    def told(self) -> str | None:
        """What stopped whom, and what to do; None if nobody was stopped."""
        said = [_of_account(account, error) for account, error in self._errors.items()]
        return " ".join(said) or None

    def tell(self) -> None:
        """Raise dagster.Failure if some account was stopped."""
        if self.told:
            raise dg.Failure(self.told, metadata={"accounts": ", ".join(self._errors)})


def _of_account(account: str, error: Exception) -> str:
    if isinstance(error, ScraperError):
        text = _explain(error, account)
    else:
        text = (error.description if isinstance(error, dg.Failure) else None) or str(error)
    return f"The account {account} is stopped: {text.removeprefix(f'The account {account}: ').removesuffix('.')}."


def _explain(error: ScraperError, account: str = DEFAULT_ACCOUNT) -> str:
    advice = next((text for kind, text in _ADVICE.items() if isinstance(error, kind)), _NOTHING_LOST)
    return as_told_of(account, f"{error}. {advice}")
