"""The service's clock, as far as its ``Date`` headers tell: a second's resolution, seen through the network."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from scraper_pipeline.scraper_api import BatchListing, CrawlListing, JobListing


@dataclass
class ServiceClock:
    """Bounds on how far the service's clock is ahead of ours (negative: behind); equal clocks until one is read."""

    least_ahead: timedelta = timedelta()
    most_ahead: timedelta = timedelta()

    def learn(self, listing: JobListing | BatchListing | CrawlListing) -> float:
        """Take the bounds from an answer; returns by how many seconds the estimate moved."""
        if listing.service_time is None:
            return 0.0
        before = self.least_ahead
        # The header was cut to the second at some moment between our request and the answer.
        self.least_ahead = listing.service_time - listing.received_at
        self.most_ahead = listing.service_time + timedelta(seconds=1) - listing.requested_at
        return abs((self.least_ahead - before).total_seconds())

    def earliest(self, ours: datetime) -> datetime:
        """The earliest that the service's clock may have shown at a moment of ours."""
        return ours + self.least_ahead

    def latest(self, ours: datetime) -> datetime:
        """The latest that the service's clock may have shown at a moment of ours."""
        return ours + self.most_ahead
