"""The command that serves the webhook receiver."""

import click

from scraper_pipeline.cli.common import IntRange, clear_errors
from scraper_pipeline.logs import log_as_json
from scraper_pipeline.receiver.command import run_receiver
from scraper_pipeline.receiver.config import MEBIBYTE, ReceiverConfig, Scheme
from scraper_pipeline.settings import load_settings
from scraper_pipeline.traces import start_tracing


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; TLS belongs in front."
)
@click.option("--port", default=8080, show_default=True, type=IntRange(0, 65535), help="0 takes a free one.")
@click.option(
    "--max-body-mib",
    default=16,
    show_default=True,
    type=IntRange(1, 1024),
    help="The largest body, in MiB.",
)
@clear_errors
def receiver(host: str, port: int, max_body_mib: int) -> None:
    """Receive the service's webhooks until Ctrl-C: verify each, commit it, answer."""
    settings = load_settings()
    if settings.log_format == "json":
        log_as_json()
    if settings.traces == "otlp":
        start_tracing()
    max_body_bytes = max_body_mib * MEBIBYTE
    config = ReceiverConfig(
        signature_header=settings.signature_header,
        schemes=frozenset(Scheme(name) for name in settings.signature_schemes),
        job_id_paths=settings.webhook_job_id_paths,
        event_paths=settings.webhook_event_paths,
        delivery_id_paths=settings.webhook_delivery_id_paths,
        max_body_bytes=max_body_bytes,
        max_buffered_bytes=max(ReceiverConfig.max_buffered_bytes, 4 * max_body_bytes),
    )
    run_receiver(
        settings.ledger_url.get_secret_value(),
        fixed_secret=settings.webhook_secret,
        secrets_file=settings.webhook_secrets_file,
        config=config,
        host=host,
        port=port,
    )
