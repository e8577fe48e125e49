"""What the service's reference leaves open, seen by extracting one page, which is paid."""

from collections.abc import Callable

from scraper_pipeline.accounts import open_client
from scraper_pipeline.checkup.findings import Finding, Subject
from scraper_pipeline.checkup.live.deliveries import Mailbox, watch_deliveries
from scraper_pipeline.checkup.live.offers import check_offers
from scraper_pipeline.checkup.live.page import SeenPage, Trial, follow_page, judge_page, submit_page
from scraper_pipeline.scraper_api import ScraperError
from scraper_pipeline.settings import Settings

__all__ = ["Mailbox", "Trial", "check_live"]

_CONTRACT = Subject("contract")


async def check_live(
    settings: Settings, trial: Trial, mailbox: Mailbox | None, tell: Callable[[str], None]
) -> list[Finding]:
    """Extract one page, and see whether the pipeline, as it is set, fits what the service tells of it.

    With a mailbox one delivery of a temporary webhook is read as well; ``tell`` gets what has to be known even if this
    is interrupted. Raises OSError where the mailbox's address is taken.
    """
    pages: list[SeenPage] = []

    async with open_client(settings) as client:

        async def try_page() -> SeenPage:
            page = await submit_page(client, trial.url)
            pages.append(page)
            await follow_page(client, page, trial)
            return page

        found = await check_offers(client, settings)
        deliveries: list[Finding] = []
        try:
            if mailbox is None:
                await try_page()
            else:
                deliveries = await watch_deliveries(client, settings, mailbox, try_page, trial.wait, tell)
        except ScraperError as error:
            deliveries.append(_CONTRACT.problem(f"{error}.", "Correct this first, and run it again."))
    for page in pages:
        found += judge_page(page, settings)
    return found + deliveries
