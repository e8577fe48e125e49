"""How patient, how quick and how stubborn the pipeline is: every figure that the life of a job depends on."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from scraper_pipeline.ledger import Ledger


@dataclass(frozen=True)
class LifecyclePolicy:
    """Durations are in seconds; the defaults suit the real service."""

    send_lease: float = 60.0
    send_grace: float = 120.0
    clock_skew: float = 10.0
    unresolved_after: float = 6 * 3600.0
    job_timeout: float = 1800.0
    lost_grace: float = 120.0
    doubt_for: float = 600.0
    watch_for: float = 7 * 24 * 3600.0
    sweep_after: float = 600.0
    sweep_overlap: float = 900.0
    unsettled_alert: float = 7200.0
    adopt_jobs: bool = False
    first_look: float = 1.0
    longest_look: float = 30.0
    status_requests_per_second: float = 2.0
    polls: bool = True
    concurrency: int = 32
    submit_chunk: int = 128
    submission_mode: Literal["auto", "extract", "batch"] = "auto"
    smallest_batch: int = 50
    largest_batch: int = 1000
    pages_at_once: int = 4
    settle_chunk: int = 200
    settle_chunk_characters: int = 32 * 1024 * 1024
    settle_lease: float = 120.0
    drain: float = 600.0
    drain_quiet: float = 10.0
    run_lease: float = 60.0
    daily_page_limit: int | None = None
    monthly_page_limit: int | None = None
    usage_interval: float = 1.0
    longest_usage_wait: float = 30.0
    timezone: str = "UTC"
    mark_urls: bool = False

    def look_delay(self, looks: int, chance: random.Random) -> timedelta:
        """How long until a job is looked at again after ``looks`` looks: exponential, with full jitter."""
        longest = min(self.longest_look, self.first_look * 2 ** min(looks, 16))
        return timedelta(seconds=chance.uniform(0, longest))

    def retry_delay(self, tries: int, chance: random.Random) -> timedelta:
        """How long a job whose settlement could not be decided waits, after ``tries`` tries."""
        longest = min(self.longest_look, self.first_look * 2 ** min(tries, 16))
        return timedelta(seconds=self.first_look / 2 + chance.uniform(0, longest))


def is_past(ledger: Ledger, since: datetime, seconds: float) -> bool:
    """Whether more than ``seconds`` have gone by on the ledger's clock."""
    return (ledger.clock() - since).total_seconds() > seconds
