"""The command that ends the runs of a code server that is gone, before the next one takes its place."""

import json
import socket
from collections.abc import Iterator

import click
import dagster as dg

from scraper_pipeline.cli.common import IntRange, clear_errors, json_option, print_json

_ANSWER_SECONDS = 2.0
_LAUNCHED_BY = ".dagster/grpc_info"
_UNDER_WAY = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]
_MESSAGE = (
    "The code server that this run was part of has ended, and the run with it. Nothing is lost: what it had not done "
    "is in the ledger, and is asked for again."
)


@click.command("end-lost-runs")
@click.option(
    "--host", envvar="DAGSTER_CODE_SERVER_HOST", required=True, help="The code server's, as the workspace has it."
)  # fmt: skip
@click.option("--port", envvar="DAGSTER_CODE_SERVER_PORT", required=True, type=IntRange(1, 65535))
@json_option
@clear_errors
def end_lost_runs_command(host: str, port: int, as_json: bool) -> None:
    """Mark the runs as failed that ended with a code server, before it is started again.

    Dagster takes them for running until they are half an hour old, and as long they keep their places from others. Call
    it where the runs are processes of the code server, and only while that is down.
    """
    if _answers(host, port):
        raise click.ClickException(
            f"A code server answers at {host}:{port}: its runs may be at work. Stop it first; nothing was changed."
        )
    with dg.DagsterInstance.get() as instance:
        ended = list(end_lost_runs(instance, host, port))
    if as_json:
        print_json([{"run_id": run_id} for run_id in ended])
    else:
        click.echo(f"{len(ended)} lost runs were ended.")


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=_ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


def end_lost_runs(instance: dg.DagsterInstance, host: str, port: int) -> Iterator[str]:
    """Report every run that this server has launched, and that is still under way to Dagster, as failed."""
    for run in instance.get_runs(dg.RunsFilter(statuses=_UNDER_WAY)):
        server = json.loads(run.tags.get(_LAUNCHED_BY, "{}"))
        if (server.get("host"), server.get("port")) == (host, port):
            instance.report_run_failed(run, _MESSAGE)
            yield run.run_id
