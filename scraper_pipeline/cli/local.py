"""The commands that run everything on this machine: the demo, and the servers for daily use."""

import os
import sys
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from scraper_pipeline.cli.common import FloatRange, IntRange, clear_errors, out
from scraper_pipeline.cli.inspection import print_violations
from scraper_pipeline.ledger import Progress as LedgerProgress
from scraper_pipeline.local import demo as demonstration
from scraper_pipeline.local.dagster_ui import DagsterError
from scraper_pipeline.local.processes import ended_by_signals
from scraper_pipeline.local.stack import LocalStack, local_stack
from scraper_pipeline.settings import load_settings, project_folder
from scraper_pipeline.target_lists import shown_url

SANDBOX_PORT = 8765


@click.command()
@click.option("--pages", default=100, show_default=True, type=IntRange(1, 100_000), help="How many targets.")
@click.option("--keep", is_flag=True, help="Leave the UI up until Ctrl-C.")
@click.option("--port", type=IntRange(1, 65535), help="The UI's port; a free one by default.")
@click.option("--timeout", type=FloatRange(min=1), help="Seconds until it gives up; by the number of pages.")
@clear_errors
@ended_by_signals()
def demo(pages: int, keep: bool, port: int | None, timeout: float | None) -> None:
    """Run the whole pipeline on a day of the sandbox's pages, in a fresh folder, and check the result."""
    folder = project_folder() / "var" / "demo"
    columns = (
        TextColumn("[progress.description]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )  # fmt: skip
    shown = LedgerProgress()
    with Progress(*columns, console=out, disable=not out.is_terminal) as bars:
        bar = bars.add_task("settled", total=pages)

        def advance(progress: LedgerProgress) -> None:
            nonlocal shown
            settled = progress.stored + progress.dead
            bars.update(bar, total=max(1, progress.targets or pages), completed=settled)
            if not out.is_terminal and progress != shown:
                shown = progress
                click.echo(
                    f"  {progress.planned} planned, {progress.sending + progress.accepted} at the service, "
                    f"{progress.stored} stored, {progress.dead} parked"
                )

        def hold(stack: LocalStack, summary: demonstration.DemoSummary) -> None:
            bars.stop()
            _print_summary(summary)
            if keep:
                click.echo(f"\nThe UI stays up at {stack.ui.url} until Ctrl-C.")
                stack.dagster.wait()

        summary = demonstration.run_demo(
            folder,
            pages,
            port=port,
            timeout=timeout or 300 + pages * 0.2,
            show=click.echo,
            advance=advance,
            hold=hold,
        )
    sys.exit(0 if summary.is_good else 1)


def _print_summary(summary: demonstration.DemoSummary) -> None:
    table = Table(title=f"The day {summary.day}, after {summary.seconds:.0f} s", show_header=False)
    table.add_row("targets", str(summary.progress.targets))
    table.add_row("stored", f"{summary.progress.stored} of {summary.extracted} that the service extracted")
    table.add_row("parked", f"{summary.progress.dead} (dead letters: pages that fail for good)")
    table.add_row("resubmitted", f"{summary.resubmitted} (failures that were worth another try)")
    table.add_row("requests", f"{summary.requests}, or {summary.requests_per_result:.2f} for each result")
    out.print(table)
    click.echo(
        f"Data: {summary.ledger_url} (tables submissions, results, dead_letters; view current_results)"
    )
    click.echo(f"Logs: {summary.folder}")
    print_violations(list(summary.violations))
    click.echo("Audit: clean" if not summary.violations else f"Audit: {len(summary.violations)} violations")
    click.echo("Next: a list of your own, in docs/tutorial.md.")


@click.command()
@click.option("--port", default=3000, show_default=True, type=IntRange(1, 65535), help="The UI's port.")
@clear_errors
@ended_by_signals()
def dev(port: int) -> None:
    """Serve Dagster's UI and daemon until Ctrl-C.

    Without GEONODE_SCRAPER_API_KEY everything runs against the sandbox, with a list, a ledger and a Dagster home of
    its own below var/sandbox.
    """
    has_key = load_settings().has_api_key
    folder = project_folder() / "var"
    environ = {name: value for name, value in os.environ.items() if name == "DAGSTER_HOME" and value}
    if has_key:
        click.echo("Starting Dagster with the real service ...")
    else:
        # experiments with the sandbox stay apart from real pages and from a real list
        folder /= "sandbox"
        environ = {
            "SCRAPER_LEDGER_URL": f"sqlite:///{folder / 'ledger.db'}",
            "GEONODE_WEBHOOK_SECRETS_FILE": str(folder / "webhook-secrets.json"),
            "SCRAPER_TARGETS": str(folder / "targets.txt"),
        }
        click.echo("No GEONODE_SCRAPER_API_KEY is set: starting Dagster with a sandbox of the service ...")
    # always the same port: a list of yesterday names the same pages today
    options = ("--port", str(SANDBOX_PORT))
    with local_stack(folder, environ, port=port, with_sandbox=not has_key, sandbox_options=options) as stack:
        if stack.sandbox_url:
            Path(environ["SCRAPER_TARGETS"]).write_text(demonstration.fetch_targets(stack.sandbox_url, 100))
        used = load_settings(stack.environ)
        click.echo(
            f"The UI is at {stack.ui.url}, the service at {used.host}, the targets in {shown_url(used.targets)},"
        )
        click.echo(f"the ledger at {used.ledger_location}, logs in {folder}. Ctrl-C ends it.")
        if stack.sandbox_url:
            click.echo(
                f"To look at it: SCRAPER_LEDGER_URL={environ['SCRAPER_LEDGER_URL']} .venv/bin/scraper-pipeline status"
            )
        try:
            stack.dagster.wait()
        except KeyboardInterrupt:
            return
    # whatever its exit code: nobody has asked for the end
    raise DagsterError(
        f"Dagster ended by itself. The end of {stack.dagster.log}:\n{stack.dagster.last_lines()}"
    )
