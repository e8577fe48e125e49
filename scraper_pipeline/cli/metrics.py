"""The command ``metrics``: the ledger's figures for Prometheus."""

import signal
import threading
from contextlib import suppress
from types import FrameType

import click

from scraper_pipeline.accounts import named_accounts, open_ledger
from scraper_pipeline.cli.common import IntRange, clear_errors
from scraper_pipeline.exporter import LedgerCollector, Limits, serving
from scraper_pipeline.logs import log_as_json
from scraper_pipeline.settings import Settings, SettingsError, load_settings


@click.command("metrics")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=9180, show_default=True, type=IntRange(0, 65535), help="0 takes a free one.")
@clear_errors
def metrics_command(host: str, port: int) -> None:
    """Serve the ledger's figures to Prometheus until Ctrl-C, at /metrics.

    The receiver has a /metrics of its own, about deliveries.
    """
    settings, stop = load_settings(), threading.Event()
    if settings.log_format == "json":
        log_as_json()

    def end(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    last = _limits(settings)

    def limits() -> dict[str, Limits]:
        nonlocal last
        with suppress(SettingsError):  # whoever plans is told of it; the figures go on
            last = _limits(settings)
        return last

    try:
        with open_ledger(settings) as ledger, serving(LedgerCollector(ledger, limits), host, port) as taken:
            click.echo(f"Metrics at http://{host}:{taken}/metrics", err=True)
            stop.wait()
    except OSError as error:
        raise click.ClickException(
            f"{host}:{port} can't be listened on: {error.strerror or error}. Give another --host or --port."
        ) from None


def _limits(settings: Settings) -> dict[str, Limits]:
    """Those of each account. Raises SettingsError."""
    return {
        one.name: Limits(one.settings.daily_page_limit, one.settings.monthly_page_limit, settings.timezone)
        for one in named_accounts(settings)
    }
