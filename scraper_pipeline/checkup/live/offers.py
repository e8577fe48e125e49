"""What of the API the service offers: so far, some of it is known to be in the reference only."""

from collections.abc import Awaitable, Callable

from scraper_pipeline.checkup.findings import Finding, Subject
from scraper_pipeline.scraper_api import NotOffered, ScraperClient, ScraperError
from scraper_pipeline.settings import Settings

_OFFERS = Subject("offers")
_SECONDS = 10.0


async def check_offers(client: ScraperClient, settings: Settings) -> list[Finding]:
    """Whether there are batches, crawls and webhooks, and what follows where there are none."""
    asked: list[tuple[str, Callable[[], Awaitable[object]], str]] = [
        (
            "Batches",
            lambda: client.list_batches(page_size=1, budget=_SECONDS),
            "each URL goes out by itself.",
        ),
        (
            "Crawls",
            lambda: client.list_crawls(page_size=1, budget=_SECONDS),
            "targets with `kind` crawl are parked.",
        ),
        ("Webhooks", lambda: client.list_webhooks(budget=_SECONDS), "polling brings the news."),
    ]
    return [await _check(name, ask, without, settings) for name, ask, without in asked]


async def _check(
    name: str, ask: Callable[[], Awaitable[object]], without: str, settings: Settings
) -> Finding:
    try:
        await ask()
    except NotOffered:
        if name == "Batches" and settings.submission_mode == "batch":
            return _OFFERS.mismatch("Batches are not offered.", {"SCRAPER_SUBMISSION_MODE": "auto"})
        return _OFFERS.ok(f"{name} are not offered: {without}")
    except ScraperError as error:
        return _OFFERS.warning(f"{error}.", f"Whether {name.lower()} are offered was not seen: try again.")
    return _OFFERS.ok(f"{name} are offered.")
