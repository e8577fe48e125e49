"""Whether Dagster's home is there, set as the pipeline needs it, and its storage within reach."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dagster as dg
import sqlalchemy as sa

from scraper_pipeline.checkup.automation import Automatic, check_automation
from scraper_pipeline.checkup.dagster_storage import unreachable_storage
from scraper_pipeline.checkup.findings import Finding, Subject

_DAGSTER = Subject("dagster")
_CONNECT_SECONDS = "10"
_COPY = "Copy deploy/dagster.yaml there for production, or let `make dev` copy the one for a single machine."


def check_dagster(home: Path, *, is_chosen: bool, declared: Sequence[Automatic]) -> list[Finding]:
    """What can be said of a home, the daemon included; ``is_chosen`` says that DAGSTER_HOME names it.

    Nothing is changed, but for the empty databases that Dagster itself makes in a home that was never used.
    """
    if not home.is_absolute():
        return [_DAGSTER.problem(f"DAGSTER_HOME is {home}, and has to be an absolute path.", "Set it anew.")]
    if not home.is_dir():
        if is_chosen:
            return [_DAGSTER.problem(f"DAGSTER_HOME names {home}, which is no folder.", f"Make it. {_COPY}")]
        said = f"DAGSTER_HOME is not set, and {home} is not there: Dagster was never started here."
        return [_DAGSTER.warning(said, "Run `make dev`, or set DAGSTER_HOME in production.")]
    if not os.access(home, os.W_OK):
        return [
            _DAGSTER.problem(
                f"{home} cannot be written to.", "Give this user the right, or set DAGSTER_HOME."
            )
        ]
    found = []
    if not (home / "dagster.yaml").is_file():
        found.append(_DAGSTER.warning(f"{home} has no dagster.yaml: Dagster goes by its defaults.", _COPY))
    if nobody := unreachable_storage(home / "dagster.yaml"):
        return [*found, _out_of_reach(f"nobody at {nobody}")]
    with ExitStack() as stack:
        stack.enter_context(_impatient_postgres())
        try:
            instance = stack.enter_context(dg.DagsterInstance.from_config(str(home)))
            return [*found, *check_instance(instance), *check_automation(instance, declared)]
        except Exception as error:  # whatever a storage of the user's own choice raises
            return [*found, _judge_failure(error, home)]


def check_instance(instance: dg.DagsterInstance) -> list[Finding]:
    """Whether an instance watches its runs, sends nothing to anybody, and can start runs."""
    found = []
    url = getattr(instance.run_storage, "postgres_url", None)
    if url is not None and (driver := sa.make_url(url).get_driver_name()) != "psycopg2":
        found.append(
            _DAGSTER.problem(
                f"Dagster's storage would use the driver {driver}, with which its first launch fails.",
                "Write `scheme: postgresql+psycopg2` below `postgres_db`, as deploy/dagster.yaml does.",
            )
        )
    if not instance.run_monitoring_enabled:
        found.append(
            _DAGSTER.warning(
                "Run monitoring is off: a run that was killed keeps its place for ever.",
                "Set `run_monitoring: {enabled: true, max_runtime_seconds: 3600}` in dagster.yaml.",
            )
        )
    if not instance.run_retries_enabled:
        found.append(
            _DAGSTER.warning(
                "Run retries are off: a run that was killed before it began waits for the next tick.",
                "Set `run_retries: {enabled: true, max_retries: 2}` in dagster.yaml.",
            )
        )
    if instance.telemetry_enabled:
        found.append(
            _DAGSTER.warning(
                "Dagster's telemetry is on: it tells its makers how Dagster is used.",
                "Set `telemetry: {enabled: false}` in dagster.yaml.",
            )
        )
    if found:
        return found
    kept = "SQLite" if url is None else "Postgres"
    return [_DAGSTER.ok(f"{instance.root_directory} is set as it should be; runs are kept in {kept}.")]


def _judge_failure(error: Exception, home: Path) -> Finding:
    database = next((one for one in _chain(error) if isinstance(one, sa.exc.DBAPIError)), None)
    if database is not None:
        return _out_of_reach((str(database.orig).strip().splitlines() or ["no reason given"])[0])
    # Dagster quotes values of the file, among which are passwords: only places and names are told.
    places = re.findall(
        r"(?:at path|environment variable) [\"'`]?([\w:]+)", "; ".join(map(str, _chain(error)))
    )
    told = f" ({', '.join(dict.fromkeys(places))})" if places else ""
    return _DAGSTER.problem(
        f"{home / 'dagster.yaml'} cannot be used: {type(error).__name__}{told}.",
        "Correct it, or begin again with deploy/dagster.yaml.",
    )


def _out_of_reach(reason: str) -> Finding:
    return _DAGSTER.problem(
        f"Dagster's storage does not answer: {reason}.",
        "Check the `storage` in dagster.yaml, and that it is up.",
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


@contextmanager
def _impatient_postgres() -> Iterator[None]:
    """Have libpq, which Dagster gives no time-out, give up a server that does not answer at all."""
    name = "PGCONNECT_TIMEOUT"
    given = os.environ.get(name)
    os.environ.setdefault(name, _CONNECT_SECONDS)
    try:
        yield
    finally:
        if given is None:
            del os.environ[name]
