"""The commands around webhooks: registration, rotation, the delivery log and replay on purpose."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from rich.table import Table

from scraper_pipeline.accounts import open_accounts
from scraper_pipeline.cli.accounts import Answers, account_option, ask_accounts, ledger_of
from scraper_pipeline.cli.common import (
    Address,
    clear_errors,
    json_option,
    out,
    print_json,
    progress_bars,
)
from scraper_pipeline.ledger import DEFAULT_ACCOUNT, Ledger, RegisteredWebhook, ReplayReport
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
    replayed_together,
    rotate_secrets,
)
from scraper_pipeline.scraper_api import ScraperClient, WebhookNotFound, parse_time
from scraper_pipeline.settings import Settings, load_settings
from scraper_pipeline.webhook_secrets import SecretsFile


@click.group()
def webhooks() -> None:
    """Register, list, rotate, replay: the service's webhooks and what became of their deliveries."""


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
@click.option(
    "--url",
    type=Address(),
    required=True,
    help="The receiver's public address, ending in /webhooks/geonode.",
)
@click.option(
    "--account", metavar="NAME", default="default", show_default=True, help="The account to register on."
)
@json_option
@clear_errors
def register(url: str, account: str, as_json: bool) -> None:
    """Have the service deliver to URL: one webhook for each event type in use. May be repeated."""

    async def act(ledger: Ledger, client: ScraperClient, settings: Settings) -> RegistrationReport:
        secrets = SecretsFile(settings.webhook_secrets_file)
        in_use = EVENT_TYPES if settings.submission_mode == "extract" else EVENT_TYPES + BULK_EVENT_TYPES
        return await register_webhooks(ledger, client, secrets, url, in_use)

    [report] = ask_accounts(account, act).of.values()
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
@account_option
@json_option
@clear_errors
def list_registered(account: str | None, as_json: bool) -> None:
    """Show the webhooks of each account; ours are marked."""

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

    answers = ask_accounts(account, act)
    named = {name: {"account": name} if answers.are_several else {} for name in answers.of}
    _show([{**named[name], **row} for name, rows in answers.of.items() for row in rows], as_json)
    answers.tell()


@webhooks.command()
@click.option("--since", default="1h", show_default=True, help="A time (ISO 8601) or an age such as 6h.")
@account_option
@json_option
@clear_errors
def deliveries(since: str, account: str | None, as_json: bool) -> None:
    """Read the delivery log, and show its attempts by outcome."""
    start = _read_time(since) or datetime.now(UTC)

    async def act(ledger: Ledger, client: ScraperClient, settings: Settings) -> DeliveryLogReport:
        return await read_delivery_log(ledger, client, since=start)

    answers = ask_accounts(account, act)
    with ledger_of(load_settings(), account) as ledger:
        figures = ledger.webhooks.figures(start)
    shown = {
        "attempts": figures.attempts,
        "acknowledged": figures.acknowledged,
        "refused": figures.refused,
        "latency_p50_seconds": round(figures.latency_p50, 3) if figures.acknowledged else None,
        "latency_p95_seconds": round(figures.latency_p95, 3) if figures.acknowledged else None,
        "last_delivery_at": figures.last_delivery_at.isoformat() if figures.last_delivery_at else None,
        "replayed": sum(report.replayed for report in answers.of.values()),
    }
    if as_json:
        print_json(shown)
    else:
        for name, value in shown.items():
            click.echo(f"{name.replace('_', ' ')}: {value}")
    answers.tell()


def _owner(webhook_id: str | None, account: str | None) -> str:
    """The account that is meant: the named one, or whose webhook it is, or else the default one."""
    if account is not None or webhook_id is None:
        return account or DEFAULT_ACCOUNT
    with open_accounts(load_settings()) as accounts:
        ours = {
            webhook.webhook_id: one.name for one in accounts for webhook in one.ledger.webhooks.registered()
        }
    return ours.get(webhook_id, DEFAULT_ACCOUNT)


def _ours(ledger: Ledger, webhook_id: str | None) -> list[RegisteredWebhook]:
    found = [w for w in ledger.webhooks.registered() if webhook_id in (None, w.webhook_id)]
    if not found:
        raise click.ClickException(
            "No such webhook is registered here: see `scraper-pipeline webhooks list`."
        )
    return found


_ONE_ACCOUNT = click.option(
    "--account", metavar="NAME", help="The account; that of WEBHOOK_ID by default, or `default`."
)


@webhooks.command()
@click.argument("webhook_id", required=False)
@_ONE_ACCOUNT
@json_option
@clear_errors
def disable(webhook_id: str | None, account: str | None, as_json: bool) -> None:
    """Switch an account's webhooks of ours off, or one of them; `register` switches them on again."""

    async def act(ledger: Ledger, client: ScraperClient, settings: Settings) -> list[str]:
        found = _ours(ledger, webhook_id)
        for webhook in found:
            await client.update_webhook(webhook.webhook_id, is_active=False)
            ledger.webhooks.remember(RegisteredWebhook(**{**webhook.__dict__, "is_active": False}))
        return [webhook.webhook_id for webhook in found]

    [changed] = ask_accounts(_owner(webhook_id, account), act).of.values()
    if as_json:
        print_json({"disabled": changed})
        return
    for one in changed:
        click.echo(f"{one} is switched off.")


@webhooks.command()
@click.argument("webhook_id", required=False)
@_ONE_ACCOUNT
@json_option
@clear_errors
def remove(webhook_id: str | None, account: str | None, as_json: bool) -> None:
    """Delete an account's webhooks of ours, or one of them, with their secrets. News then comes by polling."""

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

    [changed] = ask_accounts(_owner(webhook_id, account), act).of.values()
    if as_json:
        print_json({"removed": changed})
        return
    for one in changed:
        click.echo(f"{one} is removed.")


@webhooks.command()
@click.option("--leaked", is_flag=True, help="Accept the old secrets no longer, not even for a day.")
@account_option
@json_option
@clear_errors
def rotate(leaked: bool, account: str | None, as_json: bool) -> None:
    """Give our webhooks new secrets, and replay what the receiver refused meanwhile."""
    stays = timedelta() if leaked else OLD_SECRET_STAYS

    async def act(ledger: Ledger, client: ScraperClient, settings: Settings) -> RotationReport:
        secrets = SecretsFile(settings.webhook_secrets_file)
        return await rotate_secrets(ledger, client, secrets, old_secret_stays=stays)

    answers, report = ask_accounts(account, act), RotationReport()
    for one in answers.of.values():
        report += one
    if as_json:
        print_json(report.__dict__)
    else:
        click.echo(
            f"{report.rotated} secrets rotated, {report.replayed} jobs replayed from the delivery log."
        )
    if report.gone and not as_json:
        click.echo(
            f"{report.gone} webhooks are gone at the service: register them again, or remove them here."
        )
    answers.tell()


@webhooks.command()
@click.option("--since", help="Replay what was attempted since: a time (ISO 8601) or an age such as 6h.")
@click.option("--job", "job_ids", multiple=True, help="Replay this job; may be given more than once.")
@account_option
@json_option
@clear_errors
def replay(since: str | None, job_ids: tuple[str, ...], account: str | None, as_json: bool) -> None:
    """Have jobs settled once more. What is already done says so."""
    start = _read_time(since)
    if start is None and not job_ids:
        raise click.UsageError("Say what to replay: --since or --job.")
    if start is None:
        with ledger_of(load_settings(), account) as ledger:
            reports = [asyncio.run(replay_deliveries(one, None, job_ids=job_ids)) for one in ledger.each]
        answers = Answers[ReplayReport]({}, {})
    else:
        with progress_bars() as bars:
            bar = bars.add_task("attempts in the delivery log", total=None)

            def show(read: DeliveryLogReport) -> None:
                bars.update(bar, completed=read.attempts)

            answers = ask_accounts(
                account,
                lambda ledger, client, settings: replay_deliveries(
                    ledger, client, since=start, job_ids=job_ids, on_page=show
                ),
            )
        reports = list(answers.of.values())
    report = replayed_together(reports, job_ids)
    if as_json:
        print_json(report.__dict__)
    else:
        click.echo(
            f"{report.taken_up} jobs taken up again, {report.already_done} already done with nothing left to do, "
            f"{report.not_ours} not of this ledger."
        )
    answers.tell()


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
