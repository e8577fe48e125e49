"""A settle run that reads the results of a claimed batch, by the product's own code."""

import random
from collections.abc import Callable, Coroutine
from typing import Any

from scraper_pipeline.ledger import ClaimedJob, Ledger
from scraper_pipeline.lifecycle import LifecyclePolicy, Settlement
from scraper_pipeline.lifecycle.bulk import BulkReading
from scraper_pipeline.scraper_api import ScraperClient, ScraperError


def read_results(
    job: ClaimedJob, policy: LifecyclePolicy, chance: random.Random
) -> Callable[[Ledger, ScraperClient], Coroutine[Any, Any, None]]:
    """The run as an actor: each outcome is committed before the next is asked for."""

    async def read(ledger: Ledger, client: ScraperClient) -> None:
        reading = BulkReading(ledger, client, job, policy, chance)
        settlement = Settlement(ledger, lambda: client, (), policy, chance=chance)
        while not reading.is_over:
            try:
                outcome = await reading.next()
            except ScraperError:
                ledger.outcomes.commit([settlement._undecided(job)])
                return
            ledger.outcomes.commit([outcome])

    return read
