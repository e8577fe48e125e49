"""The commands around webhooks: registration, rotation, the delivery log and replay on purpose."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click
from rich.table import Table

from scraper_pipeline.cli.common import clear_errors, json_option, out, print_json, progress_bars
from scraper_pipeline.ledger import Ledger, RegisteredWebhook
from scraper_pipeline.lifecycle import (
    BULK_EVENT_TYPES,
    EVENT_TYPES,
    OLD_SECRET_STAYS,
    DeliveryLogReport,
    RegistrationReport,
    RotationReport,
    read_delivery_log,
    register_webhooks,
    replay_deliveries,
    rotate_secrets,
)
from scraper_pipeline.resources import open_client, open_ledger
from scraper_pipeline.scraper_api import ScraperClient, WebhookNotFound, WebhooksNotOffered, parse_time
from scraper_pipeline.settings import Settings, load_settings
from scraper_pipeline.webhook_secrets import SecretsFile

T = TypeVar("T")


@click.group()
def webhooks() -> None:
    """Register, list, rotate, replay: the service's webhooks and what became of their deliveries."""


def _with_service(act: Callable[[Ledger, ScraperClient, Settings], Awaitable[T]]) -> T:
    settings = load_settings()

    async def run() -> T:
        async with open_client(settings) as client:
            with open_ledger(settings) as ledger:
                return await act(ledger, client, settings)

    try:
        return asyncio.run(run())
    except WebhooksNotOffered as error:
        raise click.ClickException(
            f"{error} Nothing has to be done: polling goes on bringing the news."
        ) from None


def _read_time(text: str | None) -> datetime | None:
    """A time as ISO 8601, or an age such as 90m, 6h or 2d."""
    if not text:
        return None
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    if text[:-1].isdecimal() and text[-1] in units:
        return datetime.now(UTC) - timedelta(seconds=int(text[:-1]) * units[text[-1]])
    moment = parse_time(text)
    if moment is None:
        raise click.UsageError(
            f"--since takes a time such as 2026-01-31T06:00:00Z or an age such as 6h; not {text!r}"
        )
    return moment


@webhooks.command()
@click.option("--url", required=True, help="The receiver's public address, ending in /webhooks/geonode.")
@json_option
@clear_errors
def register(url: str, as_json: bool) -> None:
    """Have the service deliver to URL: one webhook for each event type in use. May be repeated."""

    async def act(ledger: Ledger, client: ScraperClient, settings: Settings) -> RegistrationReport:
        secrets = SecretsFile(settings.webhook_secrets_file)
        in_use = EVENT_TYPES if settings.submission_mode == "extract" else EVENT_TYPES + BULK_EVENT_TYPES
        return await register_webhooks(ledger, client, secrets, url, in_use)

    report = _with_service(act)
    rows = [
        {"webhook_id": one.webhook_id, "event_type": one.event_type, "url": one.url, "outcome": outcome}
        for found, outcome in (
            (report.created, "registered"),
            (report.kept, "there already"),
            (report.repaired, "repaired"),
        )
        for one in found
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        click.echo("  ".join(row.values()))
    click.echo(f"Secrets are in {load_settings().webhook_secrets_file}, readable by you alone.")


@webhooks.command("list")
@json_option
@clear_errors
def list_registered(as_json: bool) -> None:
    """Show the account's webhooks; ours are marked."""

    async def act(ledger: Ledger, client: ScraperClient, settings: Settings) -> list[dict[str, Any]]:
        ours = {webhook.webhook_id for webhook in ledger.webhooks.registered()}
        secrets = SecretsFile(settings.webhook_secrets_file)
        known = {entry.webhook_id for entry in secrets.valid(ledger.clock())}
        return [
            {
                "webhook_id": webhook.webhook_id,
                "event_type": webhook.event_type,
                "url": webhook.url,
                "active": webhook.is_active,
                "ours": webhook.webhook_id in ours,
                "secret_known": webhook.webhook_id in known,
            }
            for webhook in await client.list_webhooks()
        ]

    _show(_with_service(act), as_json)


@webhooks.command()
@click.option("--since", default="1h", show_default=True, help="A time (ISO 8601) or an age such as 6h.")
@json_option
@clear_errors
def deliveries(since: str, as_json: bool) -> None:
    """Read the delivery log, and show its attempts by outcome."""
    start = _read_time(since) or datetime.now(UTC)

    async def act(ledger: Ledger, client: ScraperClient, settings: Settings) -> tuple[DeliveryLogReport, Any]:
        report = await read_delivery_log(ledger, client, since=start)
        return report, ledger.webhooks.figures(start)

    report, figures = _with_service(act)
    shown = {
        "attempts": figures.attempts,
        "acknowledged": figures.acknowledged,
        "refused": figures.refused,
        "latency_p50_seconds": round(figures.latency_p50, 3),
        "latency_p95_seconds": round(figures.latency_p95, 3),
        "last_delivery_at": figures.last_delivery_at.isoformat() if figures.last_delivery_at else None,
        "replayed": report.replayed,
    }
    if as_json:
        print_json(shown)
        return
    for name, value in shown.items():
        click.echo(f"{name.replace('_', ' ')}: {value}")


def _ours(ledger: Ledger, webhook_id: str | None) -> list[RegisteredWebhook]:
    found = [w for w in ledger.webhooks.registered() if webhook_id in (None, w.webhook_id)]
    if not found:
        raise click.ClickException(
            "No such webhook is registered here: see `scraper-pipeline webhooks list`."
        )
    return found


@webhooks.command()
@click.argument("webhook_id", required=False)
@json_option
@clear_errors
def disable(webhook_id: str | None, as_json: bool) -> None:
    """Switch our webhooks off, or one of them; `register` switches them on again."""

    async def act(ledger: Ledger, client: ScraperClient, settings: Settings) -> list[str]:
        found = _ours(ledger, webhook_id)
        for webhook in found:
            await client.update_webhook(webhook.webhook_id, is_active=False)
            ledger.webhooks.remember(RegisteredWebhook(**{**webhook.__dict__, "is_active": False}))
        return [webhook.webhook_id for webhook in found]

    changed = _with_service(act)
    if as_json:
        print_json({"disabled": changed})
        return
    for one in changed:
        click.echo(f"{one} is switched off.")


@webhooks.command()
@click.argument("webhook_id", required=False)
@json_option
@clear_errors
def remove(webhook_id: str | None, as_json: bool) -> None:
    """Delete our webhooks, or one of them, with their secrets. News then comes by polling."""

    async def act(ledger: Ledger, client: ScraperClient, settings: Settings) -> list[str]:
        found = _ours(ledger, webhook_id)
        secrets = SecretsFile(settings.webhook_secrets_file)
        for webhook in found:
            try:
                await client.delete_webhook(webhook.webhook_id)
            except WebhookNotFound:
                click.echo(f"{webhook.webhook_id} was gone already.", err=as_json)
            ledger.webhooks.forget(webhook.webhook_id)
            secrets.remove(webhook.webhook_id)
        return [webhook.webhook_id for webhook in found]

    changed = _with_service(act)
    if as_json:
        print_json({"removed": changed})
        return
    for one in changed:
        click.echo(f"{one} is removed.")


@webhooks.command()
@click.option("--leaked", is_flag=True, help="Accept the old secrets no longer, not even for a day.")
@json_option
@clear_errors
def rotate(leaked: bool, as_json: bool) -> None:
    """Give our webhooks new secrets, and replay what the receiver refused meanwhile."""
    stays = timedelta() if leaked else OLD_SECRET_STAYS

    async def act(ledger: Ledger, client: ScraperClient, settings: Settings) -> RotationReport:
        secrets = SecretsFile(settings.webhook_secrets_file)
        return await rotate_secrets(ledger, client, secrets, old_secret_stays=stays)

    report = _with_service(act)
    if as_json:
        print_json(report.__dict__)
        return
    click.echo(f"{report.rotated} secrets rotated, {report.replayed} jobs replayed from the delivery log.")
    if report.gone:
        click.echo(
            f"{report.gone} webhooks are gone at the service: register them again, or remove them here."
        )


@webhooks.command()
@click.option("--since", help="Replay what was attempted since: a time (ISO 8601) or an age such as 6h.")
@click.option("--job", "job_ids", multiple=True, help="Replay this job; may be given more than once.")
@json_option
@clear_errors
def replay(since: str | None, job_ids: tuple[str, ...], as_json: bool) -> None:
    """Have jobs settled once more. What is already done says so."""
    start = _read_time(since)
    if start is None and not job_ids:
        raise click.UsageError("Say what to replay: --since or --job.")
    if start is None:
        with open_ledger(load_settings()) as ledger:
            report = asyncio.run(replay_deliveries(ledger, None, job_ids=job_ids))
    else:
        with progress_bars() as bars:
            bar = bars.add_task("attempts in the delivery log", total=None)

            def show(read: DeliveryLogReport) -> None:
                bars.update(bar, completed=read.attempts)

            report = _with_service(
                lambda ledger, client, settings: replay_deliveries(
                    ledger, client, since=start, job_ids=job_ids, on_page=show
                )
            )
    if as_json:
        print_json(report.__dict__)
        return
    click.echo(
        f"{report.taken_up} jobs taken up again, {report.already_done} already done with nothing left to do, "
        f"{report.not_ours} not of this ledger."
    )


def _show(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    if not rows:
        click.echo("There are none.")
        return
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    out.print(table)
