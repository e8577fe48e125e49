"""Dead letters of several accounts, tried again."""

from collections.abc import Collection, Sequence

from scraper_pipeline.accounts.accounts import OpenAccount
from scraper_pipeline.lifecycle import ResubmissionReport, retry_letters


async def retry_in_turn(
    accounts: Collection[OpenAccount], letter_ids: Sequence[int], max_pages: int | None
) -> ResubmissionReport:
    """Plan the targets of these letters once more, account by account, for ``max_pages`` of all together at most.

    Raises the ScraperError of an account; what came before it is planned.
    """
    total = ResubmissionReport()
    for account in accounts:
        others = set(account.ledger.letters.unknown(letter_ids)) if len(accounts) > 1 else set()
        own = [letter_id for letter_id in letter_ids if letter_id not in others]
        if not account.ledger.resubmissions.parked_targets(own):
            total.resolved += len(set(own))
            continue
        left = None if max_pages is None else max_pages - total.pages
        async with account.open_client() as client:
            total += await retry_letters(account.ledger, client, own, left)
    return total
