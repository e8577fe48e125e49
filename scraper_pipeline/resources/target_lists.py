"""The lists of targets as a Dagster resource."""

from collections.abc import Sequence

import dagster as dg

from scraper_pipeline.resources.accounts import named_accounts
from scraper_pipeline.settings import Settings, load_settings
from scraper_pipeline.target_lists import TargetList, choose_lists, load_target_lists


class TargetListResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Opens the lists that SCRAPER_TARGETS names."""

    def lists(self, names: Sequence[str] = ()) -> Sequence[TargetList]:
        """The lists of these names, or all of them. Raises TargetListError."""
        return choose_lists(lists_of(load_settings()), names)


def lists_of(settings: Settings) -> tuple[TargetList, ...]:
    """The lists of these settings, each of one of their accounts. Raises TargetListError and SettingsError."""
    return load_target_lists(settings.targets, [account.name for account in named_accounts(settings)])
