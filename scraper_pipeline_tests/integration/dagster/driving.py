"""Short ways to drive the pipeline through Dagster in one process, against a real sandbox, and to see what came out."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import func, select, text

from scraper_pipeline.definitions import defs
from scraper_pipeline.ledger import Channel, Ledger, Progress, ServiceJob, Violation
from scraper_pipeline.ledger.schema import dead_letters, processed_events, results, submissions
from scraper_pipeline.sandbox import SandboxServer
from scraper_pipeline.sensors import job_status_sensor

DAY, NEXT_DAY, THIRD_DAY = "2026-01-05", "2026-01-06", "2026-01-07"
THREE_DAYS = {
    "dagster/asset_partition_range_start": DAY,
    "dagster/asset_partition_range_end": THIRD_DAY,
}
POST, GET, LIST = "POST /v1/extract", "GET /v1/extract/{job_id}", "GET /v1/extract/jobs"
SETTLED_BY_DAY = ("stored_results", "dead_letters")
# For what the kind of database has no part in.
on_sqlite = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)
TERMINAL = ("completed", "failed", "cancelled")


@dataclass
class Pipeline:
    """The pipeline with everything that it talks to; ``ledger`` is open beside it, to look into."""

    sandbox: SandboxServer
    instance: dg.DagsterInstance
    ledger: Ledger
    target_list: Path
    definitions: dg.Definitions = field(default_factory=lambda: defs)

    def ask_for(self, *paths: str) -> None:
        """Make the target list of these pages of the sandbox's site."""
        self.target_list.write_text("".join(f"{self.sandbox.url}/site/{path}\n" for path in paths))

    def run(
        self,
        job: str,
        day: str | None = DAY,
        *,
        tags: Mapping[str, str] | None = None,
        run_config: Mapping[str, Any] | None = None,
        instance: dg.DagsterInstance | None = None,
    ) -> dg.ExecuteInProcessResult:
        """Execute a job for a day, or for what the tags say; a failed run is returned like any other."""
        return self.definitions.resolve_job_def(job).execute_in_process(
            partition_key=None if tags else day,
            tags=tags,
            run_config=run_config,
            instance=instance or self.instance,
            raise_on_error=False,
        )

    def submit(self, day: str | None = DAY, **config: Any) -> dg.ExecuteInProcessResult:
        run_config = {"ops": {"submitted_jobs": {"config": config}}} if config else None
        return self.run("submit_jobs", day, run_config=run_config)

    def submit_at_most(self, pages: int, day: str | None = DAY) -> dg.ExecuteInProcessResult:
        """A submit run under a daily limit."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SCRAPER_DAILY_PAGE_LIMIT", str(pages))
            return self.submit(day)

    def settle(self, day: str | None = DAY) -> dg.ExecuteInProcessResult:
        return self.run("settle_jobs", day)

    def complete(self, *days: str) -> None:
        """Bring days of pages that all end well from the list to green."""
        for day in days or (DAY,):
            assert self.submit(day).success
            self.bring_news()
            assert self.settle(day).success
            assert self.is_green(day)

    def tick(self, cursor: str | None = None) -> dg.SensorResult:
        """One tick of the sensor that asks for something, or for nothing."""
        result = self.tick_answer(cursor)
        assert isinstance(result, dg.SensorResult)
        return result

    def tick_answer(self, cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
        """One tick of the sensor, which may also say why it asks for nothing."""
        context = dg.build_sensor_context(
            instance=self.instance,
            cursor=cursor,
            resources={name: (self.definitions.resources or {})[name] for name in ("ledger", "scraper")},
        )
        result = job_status_sensor(context)
        assert isinstance(result, dg.SensorResult | dg.SkipReason)
        return result

    def asked(self, cursor: str | None = None) -> set[tuple[str | None, str | None]]:
        """The jobs and days that a tick asks for."""
        return {(request.job_name, request.partition_key) for request in self.tick(cursor).run_requests or []}

    def end_request_leases(self) -> None:
        """Let every heartbeat run out, as time would."""
        self.execute("DELETE FROM run_leases")

    def end_request_leases_but_holds(self) -> None:
        """Let every heartbeat run out, but for what `max_pages` holds until somebody launches the next run."""
        self.execute("DELETE FROM run_leases WHERE name <> 'held'")

    def bring_news(self) -> None:
        """Wait until every job that can end has ended, and report the ended ones as a channel would."""
        never = {str(rule) for rule in self.sandbox.faults()["faults"].get("never_finish", [])}
        wait_for(lambda: never or all(job["status"] in TERMINAL for job in self.jobs()))
        self.ledger.news.record(
            [job["job_id"] for job in self.jobs() if job["status"] in TERMINAL], Channel.POLL
        )

    def finish(self, job_ids: Sequence[str]) -> None:
        """Have the service end jobs that never would, and report them."""
        for job_id in job_ids:
            self.sandbox.finish_job(job_id)
        statuses = lambda: {job["job_id"]: job["status"] for job in self.jobs()}  # noqa: E731
        wait_for(lambda: all(statuses()[job_id] in TERMINAL for job_id in job_ids))
        self.ledger.news.record(job_ids, Channel.POLL)

    def jobs(self) -> list[dict[str, Any]]:
        """The service's own books."""
        return list(self.sandbox.truth()["jobs"])

    def posts(self) -> int:
        """How many POSTs the service has had."""
        return self.sandbox.requests().get(POST, 0)

    def requests(self) -> int:
        """How many requests of any kind the service has had."""
        return sum(self.sandbox.requests().values())

    def progress(self, day: str = DAY) -> Progress:
        return self.ledger.progress.of(day)

    def is_green(self, day: str = DAY) -> bool:
        """Whether Dagster shows everything of the day as materialised."""
        assets = ("targets", "submitted_jobs", *SETTLED_BY_DAY)
        return all(day in self.instance.get_materialized_partitions(dg.AssetKey(asset)) for asset in assets)

    def is_settled_in_dagster(self, day: str = DAY) -> bool:
        return all(day in self.instance.get_materialized_partitions(dg.AssetKey(a)) for a in SETTLED_BY_DAY)

    def audit(self) -> list[Violation]:
        """What the ledger and the service's books say together."""
        pages = [*self.jobs(), *self.sandbox.truth()["items"]]
        books = [
            ServiceJob(page["job_id"], page["url"], page["status"], int(page["charged"])) for page in pages
        ]
        return [*self.ledger.audit.check(), *self.ledger.audit.check_against(books)]

    def stored_state(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that a run may have changed, but for the clock's columns of leases."""
        tables = (submissions, results, dead_letters, processed_events)
        with self.ledger.engine.connect() as connection:
            return {
                table.name: sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
                for table in tables
            }

    def count(self, table: Any, *conditions: Any) -> int:
        with self.ledger.engine.connect() as connection:
            return connection.scalar(select(func.count()).select_from(table).where(*conditions)) or 0

    def execute(self, statement: str, **values: Any) -> int:
        """Run SQL behind the pipeline's back; returns how many rows it touched."""
        with self.ledger.engine.connect() as connection:
            touched = connection.execute(text(statement), values).rowcount
            connection.commit()
        return touched


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Return once the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.02)


def events_of(result: dg.ExecuteInProcessResult, kind: str) -> list[dg.DagsterEvent]:
    return [event for event in result.all_events if event.event_type_value == kind]


def materialised(result: dg.ExecuteInProcessResult) -> set[tuple[str, str | None]]:
    """The assets and days that a run materialised."""
    found = [
        event.step_materialization_data.materialization for event in _events(result, "ASSET_MATERIALIZATION")
    ]
    return {(one.asset_key.to_user_string(), one.partition) for one in found}


def observed(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str | None], dict[str, Any]]:
    """The metadata of what a run observed, by asset and day."""
    found = [event.asset_observation_data.asset_observation for event in _events(result, "ASSET_OBSERVATION")]
    return {(one.asset_key.to_user_string(), one.partition): plain(one.metadata) for one in found}


def metadata_of(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str | None], dict[str, Any]]:
    """The metadata of what a run materialised, by asset and day."""
    found = [
        event.step_materialization_data.materialization for event in _events(result, "ASSET_MATERIALIZATION")
    ]
    return {(one.asset_key.to_user_string(), one.partition): plain(one.metadata) for one in found}


def _events(result: dg.ExecuteInProcessResult, kind: str) -> Iterator[Any]:
    yield from events_of(result, kind)


def plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: getattr(value, "value", value) for name, value in metadata.items()}


def failures_of(result: dg.ExecuteInProcessResult) -> list[str]:
    """What the failed steps say to whoever looks at the run."""
    said = []
    for event in _events(result, "STEP_FAILURE"):
        data = event.step_failure_data
        said.append(data.user_failure_data.description if data.user_failure_data else data.error.to_string())
    return said


def checks_of(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    """Which asset checks passed."""
    return {one.check_name: one.passed for one in result.get_asset_check_evaluations()}
