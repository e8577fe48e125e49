"""The target list as a Dagster resource."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from scraper_pipeline.ledger import Target
from scraper_pipeline.settings import load_settings
from scraper_pipeline.target_lists import Duplicate, Rejected, read_target_list


class TargetListResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Reads the list that SCRAPER_TARGETS names."""

    @property
    def path(self) -> Path:
        return load_settings().targets

    def read(self) -> Iterator[Target | Rejected | Duplicate]:
        """Every line's target, or what is wrong with it. Raises TargetListError."""
        return read_target_list(self.path)
