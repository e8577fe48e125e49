"""The command `make drill`: see the package for what it does."""

import json
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import click

from scraper_pipeline.local.processes import ended_by_signals
from scraper_pipeline_tests.chaos.plan import Mode
from scraper_pipeline_tests.drill import channels, lost_host, migration, rolling, workers
from scraper_pipeline_tests.drill.ending import Report
from scraper_pipeline_tests.drill.hosts import NoNamespaces
from scraper_pipeline_tests.drill.plan import Plan, draw_plan
from scraper_pipeline_tests.drill.production import DrillFailed, Show

ROUNDS = 2
SCENARIOS: Mapping[str, Callable[[Plan, Path, float, Show], Report]] = {
    "rolling": rolling.run,
    "webhooks-only": channels.run_webhooks_only,
    "polling-only": channels.run_polling_only,
    "rotation": channels.run_rotation,
    "hosts": lost_host.run,
    "celery": workers.run,
    "migration": migration.run,
}


@click.command()
@click.option("--scenario", type=click.Choice(list(SCENARIOS)), default="rolling", show_default=True)
@click.option("--targets", default=50_000, show_default=True, type=click.IntRange(10, 1_000_000))
@click.option("--days", default=5, show_default=True, type=click.IntRange(1, 60))
@click.option(
    "--mode", type=click.Choice(["auto", "extract", "batch"]), default="auto", show_default=True,
    help="How `rolling` submits: in batches as by default, or one by one, which takes far longer.",
)  # fmt: skip
@click.option("--seed", type=int, help="Chosen and printed if not given.")
@click.option("--minutes", default=60.0, show_default=True, help="The most that the drill may take.")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here."
)
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep logs and files there.")
def drill(
    scenario: str,
    targets: int,
    days: int,
    mode: Mode,
    seed: int | None,
    minutes: float,
    json_file: Path | None,
    keep: Path | None,
) -> None:
    """Start the production topology for real, maltreat it, and audit what is left."""
    began = time.monotonic()
    plan = draw_plan(
        secrets.randbelow(1_000_000) if seed is None else seed,
        datetime.now(UTC).date(),
        days,
        targets,
        ROUNDS,
        mode,
    )

    def show(line: str) -> None:
        click.echo(f"{time.monotonic() - began:6.0f} s  {line}")
        sys.stdout.flush()

    show(f"{scenario}: seed {plan.seed}, {plan.targets} targets on {len(plan.days)} days")
    with ended_by_signals(), tempfile.TemporaryDirectory(prefix="drill-") as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            report = SCENARIOS[scenario](plan, folder, began + 60 * minutes, show)
        except (DrillFailed, NoNamespaces) as error:
            raise click.ClickException(str(error)) from None
        except KeyboardInterrupt:
            raise click.ClickException("ended from outside") from None
    if json_file is not None:
        json_file.write_text(json.dumps(report.figures, indent=2) + "\n")
    for name, value in report.figures.items():
        click.echo(f"{name}: {value}")
    for offence in report.offences:
        click.echo(f"offence: {offence}")
    if report.audit_exit_code:
        click.echo(f"audit ended with {report.audit_exit_code}")
    click.echo(_summary(report))
    sys.exit(not report.is_good)


def _summary(report: Report) -> str:
    figures = report.figures
    return (
        f"{report.scenario}: {figures['targets']} targets in {figures['wall_seconds']} s, {figures['stored']} stored, "
        f"{figures['lost']} lost, {figures['stored_twice']} stored twice, {figures['paid_twice']} paid twice"
    )


if __name__ == "__main__":
    drill()
