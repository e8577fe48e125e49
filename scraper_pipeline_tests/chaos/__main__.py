"""The command `make chaos`: see the package for how to have a run again."""

import json
import secrets
import signal
import sys
import time
from pathlib import Path

import click

from scraper_pipeline_tests.chaos.dagster_form import run_dagster
from scraper_pipeline_tests.chaos.parts import run_parts
from scraper_pipeline_tests.chaos.plan import Database, Form, Mode, draw_plan
from scraper_pipeline_tests.chaos.stage import Report
from scraper_pipeline_tests.chaos.storms import LONGEST_LISTING_LAG
from scraper_pipeline_tests.chaos.workers import POLICY

_LONGEST_LIST = 50
MOST_SECONDS_TO_MAKE_A_JOB = POLICY.send_grace - LONGEST_LISTING_LAG


@click.command()
@click.option("--seed", type=int, help="Chosen and printed if not given.")
@click.option("--jobs", default=2000, show_default=True, type=click.IntRange(1, 100_000), help="Targets.")
@click.option("--kills", default=200, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--database", type=click.Choice(["sqlite", "postgres"]), default="sqlite", show_default=True)
@click.option("--minutes", default=10.0, show_default=True, help="The most that the run may take.")
@click.option("--mode", type=click.Choice(["extract", "batch", "auto"]), default="extract", show_default=True)
@click.option("--form", type=click.Choice(["parts", "dagster"]), default="parts", show_default=True)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the report here."
)
@click.option(
    "--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep logs, ledger and truth there."
)
def chaos(
    seed: int | None,
    jobs: int,
    kills: int,
    database: Database,
    minutes: float,
    form: Form,
    mode: Mode,
    json_file: Path | None,
    keep: Path | None,
) -> None:
    """Run the pipeline under faults, kills and outages, and audit what is left of it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an ended run leaves no processes and no mount
    plan = draw_plan(
        secrets.randbelow(1_000_000) if seed is None else seed, jobs, kills, database, form, mode
    )
    _show(
        f"seed {plan.seed}  plan {plan.digest}: {plan.targets} targets on {len(plan.days)} days, "
        f"{plan.kills} kills and {len(plan.acts)} acts, {form} on {database}"
    )
    deadline = time.monotonic() + minutes * 60
    run = run_parts if form == "parts" else run_dagster
    report = run(plan, deadline, _show, keep)
    if json_file is not None:
        json_file.write_text(json.dumps(report.as_json(), indent=2) + "\n")
    _show_report(report)
    sys.exit(not report.is_good)


def _show(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()


def _show_report(report: Report) -> None:
    for name, value in report.as_json().items():
        if name not in ("offences", "windows"):
            _show(f"{name}: {value}")
    for violation in report.verdict.offences[:_LONGEST_LIST]:
        whom = f"{violation.partition_key} {violation.target_id}"
        _show(f"offence: {violation.rule}  {whom}  {violation.detail}")
    slowest = report.director.service.slowest_answer
    if report.verdict.paid_twice and slowest > MOST_SECONDS_TO_MAKE_A_JOB:
        _show(
            f"The sandbox took up to {slowest:.1f} s to answer. A job that is made {MOST_SECONDS_TO_MAKE_A_JOB:g} s "
            "after its request comes when the grace may be over, and is paid twice: run again on a machine less busy."
        )
    if not report.is_good:
        plan = report.plan
        _show(
            f"Not good. Again: make chaos ARGS='--seed {plan.seed} --jobs {sum(map(len, plan.days.values()))} "
            f"--kills {plan.kills} --database {plan.database} --form {plan.form} --mode {plan.mode}'"
        )


if __name__ == "__main__":
    chaos()
