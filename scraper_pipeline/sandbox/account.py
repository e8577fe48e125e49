"""The account: what has been charged and is reserved, what is at work, and the limits of both."""

from scraper_pipeline.sandbox.bulk.book import BulkBook
from scraper_pipeline.sandbox.config import SandboxConfig
from scraper_pipeline.sandbox.faults import FaultBook
from scraper_pipeline.sandbox.jobs import JobBook


class Account:
    """One account's use of the service, over single jobs, batches and crawls. Everything is counted in pages."""

    def __init__(
        self, config: SandboxConfig, faults: FaultBook, *, jobs: JobBook, batches: BulkBook, crawls: BulkBook
    ) -> None:
        self._config = config
        self._faults = faults
        self._jobs = jobs
        self._batches = batches
        self._crawls = crawls

    @property
    def charged(self) -> int:
        return self._jobs.charged + self._batches.charged + self._crawls.charged

    @property
    def limit(self) -> int:
        """How many pages may be at work at once."""
        return self._faults.faults.work_concurrency or self._config.work_concurrency_limit

    def can_reserve(self, pages: int) -> bool:
        """Whether the balance covers so many pages beyond all that is unfinished."""
        balance = self._faults.faults.balance
        if balance is None:
            return True
        unfinished = self._jobs.unfinished + self._batches.unfinished + self._crawls.unfinished
        return self.charged + unfinished + pages <= balance

    def can_pay(self) -> bool:
        """Whether one more page can be charged."""
        balance = self._faults.faults.balance
        return balance is None or self.charged < balance

    def at_work(self, time: float) -> int:
        """Pages at work: unfinished single jobs, and what of batches and crawls has begun."""
        return self._jobs.unfinished + self._batches.at_work(time) + self._crawls.at_work(time)

    def is_full(self, time: float) -> bool:
        """Whether a submission has to be refused for what is at work already."""
        refuses = self._config.refuse_above_concurrency or self._faults.faults.work_concurrency is not None
        return refuses and self.at_work(time) >= self.limit
