"""The lists of targets as a Dagster resource."""

from collections.abc import Sequence

import dagster as dg

from scraper_pipeline.accounts import lists_of
from scraper_pipeline.settings import load_settings
from scraper_pipeline.target_lists import TargetList, choose_lists


class TargetListResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the lists that SCRAPER_TARGETS names."""

    def lists(self, names: Sequence[str] = ()) -> Sequence[TargetList]:
        """The lists of these names, or all of them. Raises TargetListError."""
        return choose_lists(lists_of(load_settings()), names)
