"""Runs whose code server is gone: ended before the next one starts, so that they keep no places from others."""

import json
import socket
from pathlib import Path

import dagster as dg
import pytest
from click.testing import CliRunner

from scraper_pipeline.cli.lost_runs import end_lost_runs, end_lost_runs_command
from scraper_pipeline.definitions import defs

HERE, ELSEWHERE = ("127.0.0.1", 4000), ("127.0.0.1", 4001)
STARTED, STARTING = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING


def test_runs_of_this_server_that_are_under_way_are_ended_and_no_others() -> None:
    with dg.DagsterInstance.ephemeral() as instance:

        def make(server: tuple[str, int], status: dg.DagsterRunStatus) -> str:
            host, port = server
            tags = {".dagster/grpc_info": json.dumps({"host": host, "port": port})}
            job = defs.resolve_job_def("replay_webhook_deliveries")
            return instance.create_run_for_job(job, status=status, tags=tags).run_id

        lost = {make(HERE, STARTED), make(HERE, STARTING)}
        others = {
            make(ELSEWHERE, STARTED): STARTED,
            make(HERE, dg.DagsterRunStatus.SUCCESS): dg.DagsterRunStatus.SUCCESS,
            make(HERE, dg.DagsterRunStatus.CANCELED): dg.DagsterRunStatus.CANCELED,
        }
        assert set(end_lost_runs(instance, *HERE)) == lost
        statuses = {run.run_id: run.status for run in instance.get_runs()}
        assert {run_id: statuses[run_id] for run_id in lost} == dict.fromkeys(
            lost, dg.DagsterRunStatus.FAILURE
        )
        assert {run_id: statuses[run_id] for run_id in others} == others
        assert set(end_lost_runs(instance, *HERE)) == set()


def test_the_runs_of_a_server_that_answers_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        told = CliRunner().invoke(end_lost_runs_command, ["--host", "127.0.0.1", "--port", port])
    assert (told.exit_code, "Stop it first" in told.output) == (1, True)
    told = CliRunner().invoke(end_lost_runs_command, ["--host", "127.0.0.1", "--port", port])
    assert (told.exit_code, told.output) == (0, "0 lost runs were ended.\n")
