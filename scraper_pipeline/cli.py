"""The command ``scraper-pipeline``."""

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import date, datetime
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from zoneinfo import ZoneInfo

import click
import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from scraper_pipeline.ledger import Ledger, LedgerError, Target, Violation
from scraper_pipeline.ledger import Progress as LedgerProgress
from scraper_pipeline.local import demo as demonstration
from scraper_pipeline.local.dagster_ui import DagsterError
from scraper_pipeline.local.stack import LocalStack, local_stack
from scraper_pipeline.resources import open_client, open_ledger
from scraper_pipeline.sandbox.command import sandbox_command
from scraper_pipeline.scraper_api import ExtractedPage, ExtractOptions, InvalidOptions, ScraperError
from scraper_pipeline.settings import (
    Settings,
    SettingsError,
    load_settings,
    project_folder,
    unknown_variables,
)
from scraper_pipeline.target_lists import Rejected, TargetListError, read_target_list

P = ParamSpec("P")
T = TypeVar("T")
KNOWN_ERRORS = (SettingsError, LedgerError, TargetListError, ScraperError, DagsterError, InvalidOptions)
out, err = Console(), Console(stderr=True)


def clear_errors(command: Callable[P, T]) -> Callable[P, T]:
    """Turn the errors that a user can do something about into one message and exit code 1."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except KNOWN_ERRORS as error:
            raise click.ClickException(str(error)) from None
        except httpx.HTTPError as error:
            raise click.ClickException(f"The sandbox does not answer: {type(error).__name__}") from None

    return run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="scraper-pipeline")
def main() -> None:
    """Bring every page of a list home from an asynchronous scraping service: effectively once."""
    for name, meant in unknown_variables().items():
        hint = f"; did you mean {meant}?" if meant else "."
        err.print(f"[yellow]{name} is set, but nothing reads it{hint}[/yellow]", highlight=False)


main.add_command(sandbox_command)


def _day_option(command: Callable[P, T]) -> Callable[P, T]:
    return click.option(
        "--day",
        type=click.DateTime(["%Y-%m-%d"]),
        help="The partition, such as 2026-01-31; today by default.",
    )(command)


def _json_option(command: Callable[P, T]) -> Callable[P, T]:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def _day_key(settings: Settings, day: date | None) -> str:
    return (day or datetime.now(ZoneInfo(settings.timezone))).strftime("%Y-%m-%d")


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


@main.command()
@click.option(
    "--pages", default=100, show_default=True, type=click.IntRange(1, 100_000), help="How many targets."
)
@click.option("--keep", is_flag=True, help="Leave the UI up until Ctrl-C.")
@click.option("--port", type=click.IntRange(1, 65535), help="The UI's port; a free one by default.")
@click.option(
    "--timeout", type=click.FloatRange(min=1), help="Seconds until it gives up; by the number of pages."
)
@clear_errors
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
    _print_violations(list(summary.violations))
    click.echo("Audit: clean" if not summary.violations else f"Audit: {len(summary.violations)} violations")


@main.command()
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535), help="The UI's port.")
@clear_errors
def dev(port: int) -> None:
    """Serve Dagster's UI and daemon until Ctrl-C; with the sandbox unless GEONODE_SCRAPER_API_KEY is set."""
    settings = load_settings()
    folder = project_folder() / "var"
    has_key = settings.api_key is not None
    click.echo(
        "Starting Dagster "
        + ("with the real service ..." if has_key else "with a sandbox of the service ...")
    )
    environ: dict[str, str] = {}
    if not has_key and not settings.targets.exists():
        environ["SCRAPER_TARGETS"] = str(folder / "sandbox-targets.txt")
    with local_stack(folder, environ, port=port, with_sandbox=not has_key) as stack:
        if "SCRAPER_TARGETS" in environ:
            Path(environ["SCRAPER_TARGETS"]).write_text(
                demonstration.fetch_targets(stack.sandbox_url or "", 100)
            )
        used = load_settings(stack.environ)
        click.echo(f"The UI is at {stack.ui.url}, the service at {used.host}, the targets in {used.targets},")
        click.echo(f"the ledger at {used.ledger_location}, logs in {folder}. Ctrl-C ends it.")
        try:
            code = stack.dagster.wait()
        except KeyboardInterrupt:
            return
    if code:
        raise DagsterError(f"Dagster ended with code {code}:\n{stack.dagster.last_lines()}")


@main.command()
@click.argument("url")
@click.option(
    "--format", "page_format", type=click.Choice(["markdown", "html"]), default="markdown", show_default=True
)
@click.option("--render-js", is_flag=True, help="Load the page in a browser.")
@_json_option
@clear_errors
def extract(url: str, page_format: str, render_js: bool, as_json: bool) -> None:
    """Extract one page now and print it. It is paid, and recorded nowhere."""
    options = ExtractOptions.from_mapping({"formats": [page_format], "render_js": render_js})

    async def ask() -> ExtractedPage:
        async with open_client(load_settings()) as client:
            return await client.extract(url, options)

    found = asyncio.run(ask())
    content = (found.page.markdown if page_format == "markdown" else found.page.html) if found.page else None
    if as_json:
        _print_json(
            {"url": url, page_format: content, "metadata": found.metadata, "charged": found.tokens_charged}
        )
    else:
        click.echo(content or "")


@main.command()
@click.option(
    "--days", default=14, show_default=True, type=click.IntRange(1, 1000), help="How many days, newest first."
)
@_json_option
@clear_errors
def status(days: int, as_json: bool) -> None:
    """Show how far each day is."""
    settings = load_settings()
    with open_ledger(settings) as ledger:
        rows: list[dict[str, Any]] = [
            {
                "day": changed.partition_key,
                **_progress_of(ledger, changed.partition_key),
                "resubmitted": ledger.progress.resubmissions(changed.partition_key),
                "reasons": ledger.progress.letters_by_code(changed.partition_key),
            }
            for changed in ledger.progress.revisions(days)
        ]
        oldest = ledger.progress.oldest_open_seconds()
    if as_json:
        _print_json(
            {"ledger": settings.ledger_location, "oldest_open_seconds": round(oldest, 1), "days": rows}
        )
        return
    table = Table(title=f"Ledger {settings.ledger_location}", title_justify="left")
    for name in ("day", "targets", "planned", "sending", "accepted", "stored", "parked", "resubmitted"):
        table.add_column(name, justify="left" if name == "day" else "right")
    for row in rows:
        table.add_row(*(str(row[str(column.header)]) for column in table.columns))
    out.print(table)
    for row in rows:
        if row["reasons"]:
            click.echo(
                f"{row['day']} parked: " + ", ".join(f"{n} {code}" for code, n in row["reasons"].items())
            )
    click.echo(f"Oldest open target: {oldest:.0f} s." if oldest else "Nothing is open.")


def _progress_of(ledger: Ledger, day: str) -> dict[str, int]:
    progress = ledger.progress.of(day)
    return {"targets": progress.targets, **asdict(progress), "parked": progress.dead}


@main.command()
@_day_option
@_json_option
@clear_errors
def plan(day: date | None, as_json: bool) -> None:
    """Show what submitting a day would do and cost, and what is wrong with the list. Changes nothing."""
    settings = load_settings()
    key = _day_key(settings, day)
    problems: list[dict[str, Any]] = []
    found = new = 0
    with open_ledger(settings) as ledger:

        def flush(targets: list[Target]) -> int:
            return len(targets) - len(ledger.submissions.planned_targets(key, [t.target_id for t in targets]))

        entries = iter(read_target_list(settings.targets))
        while batch := list(islice(entries, 500)):
            targets = [entry for entry in batch if isinstance(entry, Target)]
            found, new = found + len(targets), new + flush(targets)
            for entry in batch:
                if not isinstance(entry, Target):
                    reason = (
                        entry.reason
                        if isinstance(entry, Rejected)
                        else f"the same as line {entry.first_line}"
                    )
                    problems.append({"line": entry.line, "reason": reason})
        progress = ledger.progress.of(key)
    to_submit = new + progress.planned
    report = {
        "day": key, "list": str(settings.targets), "targets": found, "new": new, "to_submit": to_submit,
        "most_pages_paid": to_submit, "problems": problems,
    }  # fmt: skip
    if as_json:
        _print_json(report)
        return
    click.echo(f"{settings.targets} has {found} targets; {new} are new to {key}.")
    click.echo(f"A run would submit {to_submit}, and pay for at most {to_submit} pages.")
    for problem in problems[:50]:
        click.echo(f"  line {problem['line']}: {problem['reason']}")
    if len(problems) > 50:
        click.echo(f"  ... and {len(problems) - 50} more lines; --json shows all.")


@main.command()
@click.option("--sandbox", "sandbox_url", help="Compare with this sandbox's books, too.")
@_json_option
@clear_errors
def audit(sandbox_url: str | None, as_json: bool) -> None:
    """Check the invariants: nothing lost, nothing stored twice, nothing paid twice. Exits 1 when one is broken."""
    settings = load_settings()
    sandbox_url = sandbox_url or settings.sandbox_url
    with open_ledger(settings) as ledger:
        violations = ledger.audit.check()
        if sandbox_url:
            violations += ledger.audit.check_against(demonstration.fetch_truth(sandbox_url))
    against = "the ledger and the sandbox" if sandbox_url else "the ledger"
    if as_json:
        _print_json({"checked": against, "violations": [asdict(violation) for violation in violations]})
    else:
        _print_violations(violations)
        click.echo(f"Checked {against}: " + (f"{len(violations)} violations." if violations else "clean."))
    sys.exit(1 if violations else 0)


def _print_violations(violations: list[Violation]) -> None:
    for found in violations[:100]:
        click.echo(f"  {found.rule}: {found.partition_key or '-'} {found.target_id or '-'}: {found.detail}")


@main.command()
@clear_errors
def migrate() -> None:
    """Bring the ledger's schema up to date. Every other command does so, too, when it first meets a ledger."""
    settings = load_settings()
    open_ledger(settings).close()
    click.echo(f"The ledger at {settings.ledger_location} is up to date.")


if __name__ == "__main__":
    main()
