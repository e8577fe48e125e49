"""What each account has cost, beside what the service tells of it."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import date

from scraper_pipeline.accounts.accounts import OpenAccount
from scraper_pipeline.lifecycle import Comparison, compare_costs, span_of
from scraper_pipeline.settings import SettingsError


def compare_span(accounts: Iterable[OpenAccount], first: date, last: date) -> list[Comparison]:
    """Each account's costs of the days beside its own statistics at the service; without these where it has no key."""

    async def compare(account: OpenAccount) -> Comparison:
        start, end = span_of(first, last, account.settings.timezone)
        if not account.key.is_told:
            return await compare_costs(account.ledger, None, start, end)
        try:
            client = account.open_client()
        except SettingsError as error:
            untold = await compare_costs(account.ledger, None, start, end)
            return replace(untold, untold_because=str(error))
        async with client:
            return await compare_costs(account.ledger, client, start, end)

    async def compare_all() -> list[Comparison]:
        return list(await asyncio.gather(*map(compare, accounts)))

    return asyncio.run(compare_all())
