"""The command that serves a sandbox: `scraper-pipeline sandbox`, or `python -m scraper_pipeline.sandbox`."""

import json
from pathlib import Path
from typing import Any, get_args

import click
from pydantic import ValidationError

from scraper_pipeline.sandbox.config import SandboxConfig
from scraper_pipeline.sandbox.faults import Faults
from scraper_pipeline.sandbox.server import serve
from scraper_pipeline.sandbox.webhooks.signatures import Scheme


@click.command("sandbox")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one."
)
@click.option("--ready-file", type=click.Path(path_type=Path, dir_okay=False), help="Write the address here.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same delays and faults.")
@click.option("--api-key", envvar="SANDBOX_API_KEY", help="Accept only this key; otherwise any will do.")
@click.option("--min-delay", default=0.2, show_default=True, help="Seconds a job takes at least.")
@click.option("--max-delay", default=2.0, show_default=True, help="Seconds a job takes at most.")
@click.option("--fetch-timeout", default=5.0, show_default=True, help="Seconds a page may take to load.")
@click.option(
    "--flaky-failures",
    default=2,
    show_default=True,
    type=click.IntRange(min=0),
    help="How often a page below /site/flaky/ fails before it succeeds.",
)
@click.option("--concurrency-limit", default=100, show_default=True, help="Shown by /v1/usage/concurrency.")
@click.option(
    "--refuse-above-concurrency", is_flag=True, help="Answer 429 while that many jobs are unfinished."
)
@click.option(
    "--allow-any-host",
    is_flag=True,
    help="Fetch pages from other machines and deliver to them too, not to this one only.",
)
@click.option(
    "--listing-key",
    type=click.Choice(["jobs", "items"]),
    default="jobs",
    show_default=True,
    help="What jobs are listed under.",
)
@click.option("--batches/--no-batches", default=True, help="Without them, /v1/batch answers 404 throughout.")
@click.option("--crawls/--no-crawls", default=True, help="Without them, /v1/crawl answers 404 throughout.")
@click.option(
    "--webhooks/--no-webhooks", default=True, help="Without them, /v1/webhooks answers 404 throughout."
)
@click.option("--webhook-signature", type=click.Choice(get_args(Scheme)), default="hex", show_default=True)
@click.option("--webhook-signature-header", default="X-Webhook-Signature", show_default=True)
@click.option(
    "--webhook-payload",
    type=click.Choice(["envelope", "guide", "foreign"]),
    default="envelope",
    show_default=True,
    help="The reference's body, the older one that the guide expects, or one like neither.",
)
@click.option(
    "--webhook-retries",
    default="1,2,5,10,30",
    show_default=True,
    help="Seconds before each further attempt of a delivery; empty for none.",
)
@click.option(
    "--webhook-timeout", default=5.0, show_default=True, help="Seconds a receiver may take to answer."
)
@click.option("--webhook-workers", default=64, show_default=True, help="Deliveries on their way at once.")
@click.option("--faults", "faults_json", default="{}", help="Faults by name, as JSON: see docs/sandbox.md.")
def sandbox_command(
    host: str,
    port: int,
    ready_file: Path | None,
    seed: int,
    api_key: str | None,
    min_delay: float,
    max_delay: float,
    fetch_timeout: float,
    flaky_failures: int,
    concurrency_limit: int,
    refuse_above_concurrency: bool,
    allow_any_host: bool,
    listing_key: str,
    batches: bool,
    crawls: bool,
    webhooks: bool,
    webhook_signature: str,
    webhook_signature_header: str,
    webhook_payload: str,
    webhook_retries: str,
    webhook_timeout: float,
    webhook_workers: int,
    faults_json: str,
) -> None:
    """Serve a local stand-in for the scraper service, with a small site of its own to scrape."""
    try:
        config = SandboxConfig.model_validate(
            {
                "seed": seed,
                "api_key": api_key or None,
                "min_delay": min_delay,
                "max_delay": max_delay,
                "fetch_timeout": fetch_timeout,
                "flaky_failures": flaky_failures,
                "work_concurrency_limit": concurrency_limit,
                "refuse_above_concurrency": refuse_above_concurrency,
                "allow_any_host": allow_any_host,
                "listing_key": listing_key,
                "batches_offered": batches,
                "crawls_offered": crawls,
                "webhooks_offered": webhooks,
                "webhook_signature": webhook_signature,
                "webhook_signature_header": webhook_signature_header,
                "webhook_payload": webhook_payload,
                "webhook_retry_schedule": [wait for wait in webhook_retries.split(",") if wait.strip()],
                "webhook_timeout": webhook_timeout,
                "webhook_workers": webhook_workers,
                "faults": _read_faults(faults_json),
            }
        )
    except ValidationError as error:
        raise click.UsageError(_in_a_line(error)) from None
    try:
        serve(config, host=host, port=port, ready_file=ready_file, announce=_announce)
    except OSError as error:
        message = f"Cannot listen on {host}:{port} ({error.strerror}): choose another with --port"
        raise click.ClickException(message) from None


def _read_faults(text: str) -> Faults:
    try:
        orders: Any = json.loads(text)
    except ValueError:
        raise click.BadParameter("not JSON", param_hint="--faults") from None
    try:
        return Faults.model_validate(orders)
    except ValidationError as error:
        raise click.BadParameter(_in_a_line(error), param_hint="--faults") from None


def _in_a_line(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()
    ).removeprefix(": ")


def _announce(url: str) -> None:
    click.echo(f"Sandbox listening on {url}  (site {url}/site/, truth {url}/sandbox/truth; Ctrl-C ends it)")
