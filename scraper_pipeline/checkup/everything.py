"""The whole check-up, but for what costs a page."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from scraper_pipeline.checkup.automation import declared_automation
from scraper_pipeline.checkup.dagster_home import check_dagster
from scraper_pipeline.checkup.database import check_ledger
from scraper_pipeline.checkup.findings import Finding, Subject
from scraper_pipeline.checkup.kept_secrets import check_webhook_secrets
from scraper_pipeline.checkup.lists import check_target_lists
from scraper_pipeline.checkup.service import check_service
from scraper_pipeline.checkup.variables import check_settings
from scraper_pipeline.resources import open_client
from scraper_pipeline.settings import Settings, project_folder

_KEY = Subject("key")


async def check_everything(environ: Mapping[str, str]) -> tuple[Settings | None, list[Finding]]:
    """The settings, unless they cannot be used, and what was found; without settings only Dagster is looked at.

    No check ends another one: whatever is wrong becomes a finding.
    """
    settings, found = check_settings(environ)
    if settings is not None:
        found += check_target_lists(str(settings.targets), datetime.now(ZoneInfo(settings.timezone)).date())
        found += check_ledger(settings)
        found += await _check_service(settings)
        found += check_webhook_secrets(settings, datetime.now(UTC))
    chosen = environ.get("DAGSTER_HOME", "").strip()
    home = Path(chosen) if chosen else project_folder() / "var" / "dagster"
    declared = declared_automation() if settings is not None else []
    found += check_dagster(home, is_chosen=bool(chosen), declared=declared)
    return settings, found


async def _check_service(settings: Settings) -> list[Finding]:
    if settings.api_key is None:
        return [
            _KEY.problem(
                "GEONODE_SCRAPER_API_KEY is not set.",
                "Set it to the key that the dashboard shows; `make demo` and `make dev` do without.",
            )
        ]
    async with open_client(settings) as client:
        return await check_service(client, settings.clock_skew_seconds)
