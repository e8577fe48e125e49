"""The whole check-up, but for what costs a page."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from scraper_pipeline.accounts import Account, as_told_of, named_accounts
from scraper_pipeline.checkup.accounts import check_named
from scraper_pipeline.checkup.automation import declared_automation
from scraper_pipeline.checkup.dagster_home import check_dagster
from scraper_pipeline.checkup.database import check_ledger, webhook_rows
from scraper_pipeline.checkup.findings import Finding, Subject
from scraper_pipeline.checkup.kept_secrets import check_webhook_secrets
from scraper_pipeline.checkup.lists import check_target_lists
from scraper_pipeline.checkup.service import check_service
from scraper_pipeline.checkup.variables import check_settings
from scraper_pipeline.checkup.webhooks import check_webhooks
from scraper_pipeline.ledger import DEFAULT_ACCOUNT
from scraper_pipeline.ledger.condition import WebhookRows
from scraper_pipeline.settings import Settings, SettingsError, project_folder

_KEY, _ACCOUNTS = Subject("key"), Subject("accounts")


async def check_everything(environ: Mapping[str, str]) -> tuple[Settings | None, list[Finding]]:
    """The settings, unless they cannot be used, and what was found; without settings only Dagster is looked at.

    No check ends another one: whatever is wrong becomes a finding.
    """
    settings, found = check_settings(environ)
    if settings is not None:
        accounts: tuple[Account, ...] = ()
        names = [DEFAULT_ACCOUNT]
        try:
            accounts = named_accounts(settings)
        except SettingsError as error:
            found.append(
                _ACCOUNTS.problem(str(error), "Correct the file: docs/accounts.md tells what it takes.")
            )
        else:
            names = [account.name for account in accounts]
            found += check_named(accounts)
        today = datetime.now(ZoneInfo(settings.timezone)).date()
        found += check_target_lists(str(settings.targets), today, names)
        found += check_ledger(settings, names)
        webhooks = webhook_rows(settings)
        for checked in await asyncio.gather(
            *(_check_service(one, len(names) > 1, webhooks.get(one.name)) for one in accounts)
        ):
            found += checked
        found += check_webhook_secrets(settings, datetime.now(UTC))
    chosen = environ.get("DAGSTER_HOME", "").strip()
    home = Path(chosen) if chosen else project_folder() / "var" / "dagster"
    declared = declared_automation() if settings is not None else []
    found += check_dagster(home, is_chosen=bool(chosen), declared=declared)
    return settings, found


async def _check_service(
    account: Account, is_one_of_several: bool, webhooks: WebhookRows | None
) -> list[Finding]:
    if not account.key.is_told:
        said, advice = "GEONODE_SCRAPER_API_KEY is not set", "Set it to the key that the dashboard shows"
        if is_one_of_several:
            told = f"{said}: lists that name no account can't be submitted."
            return [_KEY.warning(told, f"{advice}, unless every list names another account.")]
        return [_KEY.problem(f"{said}.", f"{advice}; `make demo` and `make dev` do without.")]
    try:
        client = account.open_client()
    except SettingsError as error:
        return [_KEY.problem(f"{error}.", "Correct what the message names.")]
    async with client:
        found = await check_service(client, account.settings.clock_skew_seconds)
        if webhooks is not None and not any(one.is_problem for one in found):
            found += await check_webhooks(client, webhooks)
    if not is_one_of_several:
        return found
    return [
        replace(
            one,
            said=f"{account.name}: {as_told_of(account.name, one.said)}",
            advice=as_told_of(account.name, one.advice),
        )
        for one in found
    ]
