"""The command ``scraper-pipeline``."""

import click

from scraper_pipeline.cli.lazy import Deferred, LazyGroup

_CLI = "scraper_pipeline.cli"
SECTIONS = {
    "Begin": {
        "demo": Deferred(f"{_CLI}.local", "demo", "Run a day of the sandbox's pages and check the result."),
        "dev": Deferred(f"{_CLI}.local", "dev", "Serve Dagster's UI and daemon until Ctrl-C."),
        "doctor": Deferred(f"{_CLI}.doctor", "doctor", "Check everything and say what to do."),
        "plan": Deferred(f"{_CLI}.planning", "plan", "Show what submitting a day would do and cost."),
    },
    "Look and act": {
        "status": Deferred(f"{_CLI}.inspection", "status", "Show how far each day is."),
        "dead-letters": Deferred(
            f"{_CLI}.dead_letters", "dead_letters", "Look at what was parked and retry or discard it."
        ),
        "export": Deferred(f"{_CLI}.exporting", "export", "Write the stored pages of a day to a file."),
        "costs": Deferred(f"{_CLI}.costs", "costs", "Show the pages that were paid for."),
        "audit": Deferred(f"{_CLI}.inspection", "audit", "Check that nothing is lost or stored twice."),
        "extract": Deferred(
            f"{_CLI}.extraction", "extract", "Extract one page now and print it; it is paid."
        ),
    },
    "Serve and keep up": {
        "receiver": Deferred(f"{_CLI}.receiver", "receiver", "Receive the service's webhooks until Ctrl-C."),
        "webhooks": Deferred(
            f"{_CLI}.webhooks", "webhooks", "Register and replay webhooks and rotate their secrets."
        ),
        "metrics": Deferred(
            f"{_CLI}.metrics", "metrics_command", "Serve figures to Prometheus until Ctrl-C."
        ),
        "migrate": Deferred(f"{_CLI}.inspection", "migrate", "Bring the ledger's schema up to date."),
        "end-lost-runs": Deferred(
            f"{_CLI}.lost_runs",
            "end_lost_runs_command",
            "Mark the runs as failed that a code server left behind.",
        ),
        "prune": Deferred(f"{_CLI}.pruning", "prune_command", "Drop what is old from the ledger."),
        "sandbox": Deferred(
            "scraper_pipeline.sandbox.command", "sandbox_command", "Serve a local stand-in for the service."
        ),
        "completion": Deferred(f"{_CLI}.completion", "completion", "Print what makes a shell complete this."),
    },
}


@click.group(cls=LazyGroup, sections=SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="scraper-pipeline")
@click.pass_context
def main(context: click.Context) -> None:
    """Bring every page of a list home from an asynchronous scraping service: effectively once.

    Each command ends with 0 when it did what it says, with 1 when it could not or has found something, and with 2 when
    it was called wrongly.
    """
    if context.invoked_subcommand not in ("doctor", "completion"):  # the first tells it in its own way
        _tell_unread_variables()


def _tell_unread_variables() -> None:
    from scraper_pipeline.cli.common import err
    from scraper_pipeline.settings import unknown_variables

    for name, meant in unknown_variables().items():
        hint = f"; did you mean {meant}?" if meant else "."
        err.print(
            f"[yellow]{name} is set, but nothing reads it{hint}[/yellow]", highlight=False, soft_wrap=True
        )
