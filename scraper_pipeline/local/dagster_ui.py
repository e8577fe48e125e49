"""What a user does in Dagster's UI, over the same GraphQL: launch a run, and look at what became of it."""

import time
from typing import Any

import httpx

from scraper_pipeline.local.processes import ChildProcess


class DagsterError(Exception):
    """Dagster did not do what was asked; the message has its words."""


class DagsterUi:
    """A running webserver at ``url``."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._selector: dict[str, str] = {}
        self._http = httpx.Client(base_url=url, timeout=30.0, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def wait_until_loaded(self, server: ChildProcess, seconds: float) -> None:
        """Return once the project is served. Raises DagsterError if the server ends, or does not get there in time."""
        end = time.monotonic() + seconds
        while server.is_running and time.monotonic() < end:
            try:
                if self._find_repository() and server.is_running:
                    return
            except (httpx.HTTPError, DagsterError):
                pass  # not up yet: that is what we wait for
            time.sleep(0.25)
        raise DagsterError(f"Dagster did not come up. The end of {server.log}:\n{server.last_lines()}")

    def _find_repository(self) -> bool:
        found = self._ask(
            "{ repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } } }"
        )
        for node in found["repositoriesOrError"].get("nodes", []):
            self._selector = {
                "repositoryName": node["name"],
                "repositoryLocationName": node["location"]["name"],
            }
        return bool(self._selector)

    def revive_project(self) -> bool:
        """Have a project that is no longer served loaded again; returns whether that was needed.

        A code server that was killed does not come back by itself.
        """
        status = self._ask(
            "{ workspaceOrError { ... on Workspace { locationEntries { name locationOrLoadError { __typename } } } } }"
        )
        lost = [
            entry["name"]
            for entry in status["workspaceOrError"].get("locationEntries", [])
            if (entry["locationOrLoadError"] or {}).get("__typename") == "PythonError"
        ]
        for name in lost:
            self._ask(
                "mutation ($name: String!) { reloadRepositoryLocation(repositoryLocationName: $name) { __typename } }",
                {"name": name},
            )
        return bool(lost)

    def launch(self, job: str, day: str) -> str:
        """Launch a job for one day, as the launchpad does; returns the run's id."""
        answer = self._ask(
            """mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) {
                 __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
               } }""",
            {
                "params": {
                    "selector": {**self._selector, "jobName": job},
                    "executionMetadata": {"tags": [{"key": "dagster/partition", "value": day}]},
                }
            },
        )["launchRun"]
        if answer["__typename"] != "LaunchRunSuccess":
            raise DagsterError(answer.get("message", answer["__typename"]))
        return str(answer["run"]["runId"])

    def run_status(self, run_id: str) -> str:
        """SUCCESS, FAILURE, STARTED and so on."""
        answer = self._ask(
            "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }", {"id": run_id}
        )
        return str(answer["runOrError"].get("status", "NOT_FOUND"))

    def failure_message(self, run_id: str) -> str:
        """Why a run failed, in the words of its failed step."""
        answer = self._ask(
            """query ($id: ID!) { logsForRun(runId: $id) { ... on EventConnection { events {
                 ... on ExecutionStepFailureEvent { error { message } } } } } }""",
            {"id": run_id},
        )
        messages = [
            event["error"]["message"]
            for event in answer["logsForRun"].get("events", [])
            if event.get("error")
        ]
        return messages[0].strip() if messages else "see the run's log in the UI"

    def is_materialized(self, asset: str, day: str) -> bool:
        """Whether the asset is green for the day."""
        answer = self._ask(
            """query ($key: AssetKeyInput!, $days: [String!]) { assetNodeOrError(assetKey: $key) {
                 ... on AssetNode { latestMaterializationByPartition(partitions: $days) { timestamp } } } }""",
            {"key": {"path": [asset]}, "days": [day]},
        )
        found = answer["assetNodeOrError"].get("latestMaterializationByPartition", [])
        return any(found)

    def _ask(self, query: str, variables: dict[str, Any] | None = None) -> dict[str, Any]:
        response = self._http.post("/graphql", json={"query": query, "variables": variables or {}})
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        if answer.get("errors"):
            raise DagsterError(str(answer["errors"][0].get("message")))
        data: dict[str, Any] = answer["data"]
        return data
