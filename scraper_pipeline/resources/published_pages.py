"""The place of the published pages as a Dagster resource."""

import dagster as dg

from scraper_pipeline.publishing import Place, open_place
from scraper_pipeline.settings import load_settings


class PublishedPagesResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the folder or object store that SCRAPER_PAGES_URL names."""

    def open(self) -> Place:
        """The place. Raises PublishingError where nothing can be written to it."""
        return open_place(load_settings().pages_url)
