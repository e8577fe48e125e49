"""The Scraper API as a Dagster resource, with the policy that the settings ask for."""

import logging

import dagster as dg

from scraper_pipeline.lifecycle import LifecyclePolicy
from scraper_pipeline.scraper_api import Pacer, ScraperClient
from scraper_pipeline.settings import Settings, SettingsError, load_settings


class ScraperResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens clients for the service that GEONODE_SCRAPER_HOST names; all of a process share one pace."""

    def open_client(self) -> ScraperClient:
        """A client to be closed by the caller. Raises SettingsError where no key is set."""
        return open_client(load_settings())

    def policy(self) -> LifecyclePolicy:
        """The settings as the life of a job knows them."""
        return lifecycle_policy(load_settings())


def open_client(settings: Settings) -> ScraperClient:
    """A client for the service of these settings. Raises SettingsError where no key is set."""
    if settings.api_key is None:
        raise SettingsError(
            "GEONODE_SCRAPER_API_KEY is not set; it takes the key that the Geonode dashboard shows. "
            "To try everything without a key, run: make demo"
        )
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it writes whole URLs, a line a request
    return ScraperClient(
        host=settings.host,
        api_key=settings.api_key,
        pacer=Pacer.shared(settings.host),
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
