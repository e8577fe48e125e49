"""What the end to end tests do to a running pipeline: use its GraphQL, look into its ledger, kill its processes."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import psutil

from scraper_pipeline.assets import CHECKS
from scraper_pipeline.ledger import Ledger, Progress, Violation
from scraper_pipeline.local.dagster_ui import DagsterError, DagsterUi
from scraper_pipeline.local.demo import fetch_truth

ENDED = ("SUCCESS", "FAILURE", "CANCELED")
Process = psutil.Process

# A settle run has to be met while it waits for news of a day that is not over. Two runs may start half a minute apart
# on a busy machine; a run whose day is over ends at once, whatever is said here.
QUIET_SECONDS = "300"


class Ui(DagsterUi):
    """Beyond what the command line needs: backfills, checks by themselves, and what became of them."""

    def find_project(self) -> None:
        """Learn the name under which the project is served."""
        wait_for(self._find_repository, 180, "the project to be served")

    def stop_sensor(self, name: str) -> None:
        """Switch a sensor off, as its page does."""
        found = self._ask(
            """query ($sensor: SensorSelector!) { sensorOrError(sensorSelector: $sensor) {
                 ... on Sensor { sensorState { id } } } }""",
            {"sensor": {**self._selector, "sensorName": name}},
        )["sensorOrError"]
        answer = self._ask(
            """mutation ($id: String!) { stopSensor(id: $id) {
                 __typename ... on StopSensorMutationResult { instigationState { status } } } }""",
            {"id": found["sensorState"]["id"]},
        )["stopSensor"]
        assert answer["instigationState"]["status"] == "STOPPED", answer

    def launch_over(self, job: str, first_day: str, last_day: str) -> str:
        """Launch one run of a job for a range of days."""
        return self._launch({"jobName": job}, _over(first_day, last_day))

    def launch_sweep(self) -> str:
        """Launch reconcile_jobs, which is of no day."""
        return self._launch({"jobName": "reconcile_jobs"}, {})

    def materialize(self, assets: Sequence[str], day: str) -> str:
        """Launch assets with their checks for one day, by the mutation and with the parameters of *Materialize*."""
        checks = (key for check in CHECKS for key in check.check_keys)
        params = {
            "mode": "default",
            "executionMetadata": {"tags": [{"key": "dagster/partition", "value": day}]},
            "runConfigData": "{}",
            "selector": {
                **self._selector,
                "pipelineName": "__ASSET_JOB",
                "assetSelection": [{"path": [asset]} for asset in assets],
                "assetCheckSelection": [
                    {"assetKey": {"path": list(key.asset_key.path)}, "name": key.name}
                    for key in checks
                    if key.asset_key.to_user_string() in assets
                ],
            },
        }
        answer = self._ask(
            """mutation LaunchPipelineExecution($executionParams: ExecutionParams!) {
                 launchPipelineExecution(executionParams: $executionParams) {
                   __typename ... on LaunchRunSuccess { run { id } } ... on PythonError { message } } }""",
            {"executionParams": params},
        )["launchPipelineExecution"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["id"])

    def _launch(self, selector: Mapping[str, Any], tags: Mapping[str, str]) -> str:
        params = {
            "selector": {**self._selector, **selector},
            "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
        }
        answer = self._ask(
            """mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) {
                 __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
               } }""",
            {"params": params},
        )["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["runId"])

    def wait_for_run(self, run_id: str, seconds: float = 180.0) -> str:
        """How a run ended."""
        wait_for(lambda: self.run_status(run_id) in ENDED, seconds, f"the end of run {run_id}")
        return self.run_status(run_id)

    def backfill(self, assets: Sequence[str], days: Sequence[str]) -> str:
        """Launch a backfill of assets, as the UI does when several days are chosen."""
        answer = self._ask(
            """mutation ($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
                 __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }""",
            {
                "params": {
                    "assetSelection": [{"path": [asset]} for asset in assets],
                    "partitionNames": list(days),
                    "allPartitions": False,
                }
            },
        )["launchPartitionBackfill"]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        return str(answer["backfillId"])

    def runs(self, job: str | None = None) -> list[dict[str, Any]]:
        """All runs, newest first: `runId`, `status`, `jobName`, and `tags` as a dictionary."""
        answer = self._ask(
            """query ($filter: RunsFilter!) { runsOrError(filter: $filter, limit: 200) { ... on Runs { results {
                 runId status jobName tags { key value } } } } }""",
            {"filter": {"pipelineName": job} if job else {}},
        )
        return [
            {**run, "tags": {tag["key"]: tag["value"] for tag in run["tags"]}}
            for run in answer["runsOrError"]["results"]
        ]


def _over(first_day: str, last_day: str) -> dict[str, str]:
    if first_day == last_day:
        return {"dagster/partition": first_day}
    return {"dagster/asset_partition_range_start": first_day, "dagster/asset_partition_range_end": last_day}


@dataclass
class Observer:
    """Sees what a running pipeline does, without having a part in it."""

    ui: Ui
    ledger: Ledger
    sandbox_url: str

    def progress(self, day: str) -> Progress:
        return self.ledger.progress.of(day)

    def is_done(self, day: str) -> bool:
        """Settled in the ledger, and green in the UI."""
        progress = self.progress(day)
        return bool(progress.targets and progress.is_settled) and self.ui.is_materialized(
            "stored_results", day
        )

    def wait_until_done(self, days: Sequence[str], seconds: float) -> None:
        wait_for(
            lambda: all(self.is_done(day) for day in days),
            seconds,
            f"days to be done: {days}",
            lambda: f"{ {day: self.progress(day) for day in days} } {[r for r in self.ui.runs()][:6]}",
        )

    def audit(self) -> list[Violation]:
        """What the ledger and the service's books say together."""
        return [*self.ledger.audit.check(), *self.ledger.audit.check_against(fetch_truth(self.sandbox_url))]

    def posts(self) -> int:
        """How many POSTs the service has had."""
        return int(self._sandbox("GET", "requests").get("POST /v1/extract", 0))

    def set_faults(self, **faults: Any) -> None:
        self._sandbox("POST", "faults", faults)

    def finish_jobs(self) -> None:
        """Have the service bring those jobs to their end that never would have ended."""
        for job in self._sandbox("GET", "truth")["jobs"]:
            if job["completed_at"] is None:
                self._sandbox("POST", f"jobs/{job['job_id']}/finish")

    def _sandbox(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        answer = httpx.request(
            method,
            f"{self.sandbox_url}/sandbox/{path}",
            json=body,
            trust_env=False,
            timeout=30,
            verify=False,  # noqa: S501 (plain HTTP: reading the authorities takes longer than the request)
        )
        answer.raise_for_status()
        found: dict[str, Any] = json.loads(answer.content or "{}")
        return found


@contextmanager
def observe(ui_url: str, ledger_url: str, sandbox_url: str) -> Iterator[Observer]:
    """An observer of a pipeline whose UI is up, or coming up."""
    ui = Ui(ui_url)
    try:
        ui.find_project()
        with Ledger.open(ledger_url) as ledger:
            yield Observer(ui, ledger, sandbox_url)
    finally:
        ui.close()


def wait_for(
    condition: Callable[[], object],
    seconds: float,
    what: str = "it",
    describe: Callable[[], object] = lambda: "",
) -> None:
    """Return once the condition holds. A server that is being killed or started may answer amiss, or not at all."""
    end = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except (httpx.HTTPError, DagsterError):
            pass
        assert time.monotonic() < end, f"waited {seconds:g} s in vain for {what} {describe()}"
        time.sleep(0.4)  # each look costs Dagster's webserver 20 ms, on a machine that has much to do


def descendants(pid: int) -> list[psutil.Process]:
    """All processes below one."""
    try:
        return list(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def code_servers(pid: int) -> list[psutil.Process]:
    """The processes below one that have the project loaded, and that runs are forked from."""
    return [
        process for process in descendants(pid) if "api" in _command(process) and "grpc" in _command(process)
    ]


def run_workers(server: psutil.Process) -> list[psutil.Process]:
    """The runs that a code server has started."""
    try:
        children = server.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [child for child in children if "multiprocessing.spawn" in " ".join(_command(child))]


def processes_with(name: str, value: str) -> list[psutil.Process]:
    """Every process that was given this environment variable."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(name) == value and process.pid != os.getpid():
                found.append(process)
        except psutil.Error:
            continue
    return found


def kill(*processes: psutil.Process) -> None:
    """SIGKILL, one straight after the other."""
    for process in processes:
        os.kill(process.pid, signal.SIGKILL)


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
