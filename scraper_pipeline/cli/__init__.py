"""The command ``scraper-pipeline``."""

import click

from scraper_pipeline.cli.common import err
from scraper_pipeline.cli.extraction import extract
from scraper_pipeline.cli.inspection import audit, migrate, status
from scraper_pipeline.cli.local import demo, dev
from scraper_pipeline.cli.planning import plan
from scraper_pipeline.cli.receiver import receiver
from scraper_pipeline.cli.webhooks import webhooks
from scraper_pipeline.sandbox.command import sandbox_command
from scraper_pipeline.settings import unknown_variables


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="scraper-pipeline")
def main() -> None:
    """Bring every page of a list home from an asynchronous scraping service: effectively once."""
    for name, meant in unknown_variables().items():
        hint = f"; did you mean {meant}?" if meant else "."
        err.print(
            f"[yellow]{name} is set, but nothing reads it{hint}[/yellow]", highlight=False, soft_wrap=True
        )


for command in (demo, dev, sandbox_command, receiver, webhooks, extract, status, plan, audit, migrate):
    main.add_command(command)
