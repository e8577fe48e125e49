"""The command that serves a receiver: `scraper-pipeline receiver`, or `python -m scraper_pipeline.receiver`."""

import dataclasses
from pathlib import Path
from typing import Any

import click
from pydantic import SecretStr

from scraper_pipeline.ledger import InboxStore, Ledger
from scraper_pipeline.receiver.app import create_receiver
from scraper_pipeline.receiver.config import ReceiverConfig, Scheme
from scraper_pipeline.receiver.server import serve
from scraper_pipeline.webhook_secrets import KnownSecrets, SecretsFile, WebhookSecretsError

_DEFAULTS = ReceiverConfig()


@click.command("receiver")
@click.option("--ledger-url", required=True, help="Where the ledger is, as a SQLAlchemy URL.")
@click.option(
    "--secrets-file", type=click.Path(path_type=Path, dir_okay=False), help="The file of webhook secrets."
)
@click.option("--secret", help="One more secret that is valid for good.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one."
)
@click.option("--ready-file", type=click.Path(path_type=Path, dir_okay=False), help="Write the address here.")
@click.option("--path", default=_DEFAULTS.path, show_default=True, help="Where deliveries are posted to.")
@click.option("--signature-header", default=_DEFAULTS.signature_header, show_default=True)
@click.option(
    "--scheme", "schemes", multiple=True, type=click.Choice([*Scheme]), default=sorted(_DEFAULTS.schemes),
    show_default=True, help="A way to sign that is accepted.",
)  # fmt: skip
@click.option(
    "--job-id-path", "job_id_paths", multiple=True, default=_DEFAULTS.job_id_paths, show_default=True
)
@click.option("--event-path", "event_paths", multiple=True, default=_DEFAULTS.event_paths, show_default=True)
@click.option(
    "--delivery-id-path", "delivery_id_paths", multiple=True, default=_DEFAULTS.delivery_id_paths, show_default=True
)  # fmt: skip
@click.option(
    "--max-body-bytes", default=_DEFAULTS.max_body_bytes, show_default=True, type=click.IntRange(min=1)
)
@click.option(
    "--commit-timeout", "commit_timeout_seconds", default=_DEFAULTS.commit_timeout_seconds, show_default=True,
    type=click.FloatRange(min=0, min_open=True), help="Seconds until a delivery is answered with 503.",
)  # fmt: skip
def receiver_command(
    ledger_url: str,
    secrets_file: Path | None,
    secret: str | None,
    host: str,
    port: int,
    ready_file: Path | None,
    **options: Any,
) -> None:
    """Receive the service's webhooks: verify each, commit it, answer."""
    config = dataclasses.replace(
        _DEFAULTS,
        **{**options, "schemes": frozenset(options["schemes"])},
        max_buffered_bytes=max(_DEFAULTS.max_buffered_bytes, 4 * options["max_body_bytes"]),
    )
    run_receiver(
        ledger_url,
        fixed_secret=SecretStr(secret) if secret is not None else None,
        secrets_file=secrets_file,
        config=config,
        host=host,
        port=port,
        ready_file=ready_file,
    )


def run_receiver(
    ledger_url: str,
    *,
    fixed_secret: SecretStr | None = None,
    secrets_file: Path | None = None,
    config: ReceiverConfig = _DEFAULTS,
    host: str = "127.0.0.1",
    port: int = 8080,
    ready_file: Path | None = None,
) -> None:
    """Serve until told to end. Raises click.ClickException with what the operator can do."""

    def open_store() -> InboxStore:
        return Ledger.open(ledger_url).inbox

    try:
        secrets = KnownSecrets(
            fixed=[] if fixed_secret is None else [fixed_secret],
            file=None if secrets_file is None else SecretsFile(secrets_file),
        )
        app = create_receiver(open_store, secrets, config)
        serve(app, host=host, port=port, ready_file=ready_file, announce=lambda url: _announce(url, config))
    except WebhookSecretsError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        message = f"Cannot listen on {host}:{port} ({error.strerror}): choose another with --port"
        raise click.ClickException(message) from None


def _announce(url: str, config: ReceiverConfig) -> None:
    click.echo(
        f"Receiver listening on {url}{config.path}  (health {url}/readyz, {url}/metrics; Ctrl-C ends it)"
    )
