"""Turns the errors that an operator can do something about into failures that say so, without a stack of frames."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from sqlalchemy.exc import DBAPIError

from scraper_pipeline.ledger import LedgerError
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


@contextmanager
def explained_failures() -> Iterator[None]:
    """Raise dagster.Failure with one clear message instead of the errors that have one."""
    try:
        yield
    except ScraperError as error:
        advice = next((text for kind, text in _ADVICE.items() if isinstance(error, kind)), _NOTHING_LOST)
        raise dg.Failure(f"{error}. {advice}", metadata={"error": type(error).__name__}) from None
    except DBAPIError as error:
        reason = (str(error.orig).strip().splitlines() or ["no reason given"])[0]
        raise dg.Failure(f"The ledger's database failed: {reason}. {_NOTHING_LOST}") from None
    except (SettingsError, TargetListError, LedgerError, WebhookSecretsError, PublishingError) as error:
        raise dg.Failure(str(error), metadata={"error": type(error).__name__}) from None
