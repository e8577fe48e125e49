"""What the settings ask for of the client and of the life of a job."""

import logging

from pydantic import SecretStr

from scraper_pipeline.lifecycle import LifecyclePolicy
from scraper_pipeline.scraper_api import Pacer, ScraperClient
from scraper_pipeline.settings import Settings


def make_client(settings: Settings, api_key: SecretStr, account: str) -> ScraperClient:
    """A client for an account with the service of these settings; all of a process share one pace for each."""
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it writes whole URLs, a line a request
    return ScraperClient(
        host=settings.host,
        api_key=api_key,
        pacer=Pacer.shared(f"{account} at {settings.host}"),
        max_body_bytes=settings.max_body_bytes,
        connections=settings.concurrency,
    )


def lifecycle_policy(settings: Settings) -> LifecyclePolicy:
    """The policy that the settings ask for."""
    return LifecyclePolicy(
        send_lease=settings.send_lease_seconds,
        send_grace=settings.send_grace_seconds,
        clock_skew=settings.clock_skew_seconds,
        unresolved_after=settings.unresolved_after_seconds,
        job_timeout=settings.job_timeout_seconds,
        lost_grace=settings.lost_grace_seconds,
        submission_mode=settings.submission_mode,
        polls=settings.poll,
        concurrency=settings.concurrency,
        drain=settings.drain_seconds,
        drain_quiet=settings.drain_quiet_seconds,
        daily_page_limit=settings.daily_page_limit,
        monthly_page_limit=settings.monthly_page_limit,
        timezone=settings.timezone,
        mark_urls=settings.mark_urls,
        sweep_after=settings.sweep_after_seconds,
        unsettled_alert=settings.unsettled_alert_seconds,
        adopt_jobs=settings.adopt_jobs,
    )
