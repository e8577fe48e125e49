"""A ledger of the release before is migrated while jobs end, deliveries come, and receivers and runs wait for it."""

import signal
import time
from pathlib import Path

from sqlalchemy import Connection, MetaData, create_engine, func, insert, inspect, select, text

from scraper_pipeline.ledger import database
from scraper_pipeline.ledger.schema import metadata
from scraper_pipeline_tests.chaos.verdict import ended_targets
from scraper_pipeline_tests.drill.ending import Report, report, wait_until_settled
from scraper_pipeline_tests.drill.plan import Plan
from scraper_pipeline_tests.drill.production import Production, Show, production
from scraper_pipeline_tests.revisions import migrate_to
from scraper_pipeline_tests.roles import Roles

_BEFORE = "ledger_before"
_WAITING_SECONDS = 30.0
_ROWS_AT_ONCE = 2000
_WRITING = ("code-server", "daemon", "receiver-1", "receiver-2", "metrics")
_JOBS_END_LATE = ("--min-delay", "5", "--max-delay", "90")


def run(plan: Plan, folder: Path, deadline: float, show: Show) -> Report:
    with production(
        folder,
        plan,
        show,
        settings={"SCRAPER_SUBMISSION_MODE": "extract"},
        sandbox_options=_JOBS_END_LATE,
    ) as found:
        began = time.monotonic()
        found.rain()
        for day in plan.days:
            found.begin(day, plan)
        third = plan.targets // 3
        found.wait_for(
            lambda: ended_targets(found.ledger) > third, 600, "a third of the targets to have ended"
        )
        for name in _WRITING:
            found.services[name].stop(signal.SIGTERM)
        rows = _set_back(found)
        show(f"the ledger is at revision {previous_revision()} with {rows} rows")
        for name in _WRITING:
            found.services[name].start()
        found.tend_for(_WAITING_SECONDS)
        started = time.monotonic()
        found.migrate()
        seconds = time.monotonic() - started
        show(f"migrated in {seconds:.1f} s")
        wait_until_settled(found, plan, deadline)
        more = {
            "rows_migrated": rows,
            "migration_seconds": round(seconds, 1),
            "waited_seconds": _WAITING_SECONDS,
        }
        return report("migration", found, plan, time.monotonic() - began, more)


def previous_revision() -> str:
    return database.known_revisions()[1]


def _set_back(found: Production) -> int:
    """Put a ledger of the revision before, with all the rows, in the place of this one; returns how many they are."""
    found.ledger.engine.dispose()
    server = found.postgres
    Roles(server, "postgres").execute(f"CREATE DATABASE {_BEFORE} TEMPLATE template0 ENCODING 'UTF8'")
    roles = Roles(server, _BEFORE, found.installation.roles.password)
    roles.make()
    migrate_to(roles.url("scraper_owner"), previous_revision())
    rows = _copy(server.url("ledger"), server.url(_BEFORE))
    for old, new in (("ledger", "ledger_after"), (_BEFORE, "ledger")):
        Roles(server, "postgres").execute(f"ALTER DATABASE {old} RENAME TO {new}")
    return rows


def _copy(source_url: str, target_url: str) -> int:
    """Every row, in the columns that both ledgers have."""
    source, target = create_engine(source_url), create_engine(target_url)
    count = 0
    with source.connect() as reading, target.begin() as writing:
        names = set(inspect(target).get_table_names())
        there = MetaData()
        there.reflect(target)
        for table in metadata.sorted_tables:
            if table.name not in names:
                continue
            columns = [column for column in table.columns if column.name in there.tables[table.name].c]
            rows = reading.execute(select(*columns).execution_options(yield_per=_ROWS_AT_ONCE)).mappings()
            for part in rows.partitions(_ROWS_AT_ONCE):
                writing.execute(insert(table), [dict(row) for row in part])
                count += len(part)
            for column in columns:
                _advance(writing, table.name, column.name)
    source.dispose()
    target.dispose()
    return count


def _advance(connection: Connection, table: str, column: str) -> None:
    """Have the column's numbers, if it draws any, go on after those that are there."""
    drawn = connection.scalar(select(func.pg_get_serial_sequence(table, column)))
    if drawn is not None:
        highest = text(f'SELECT coalesce(max("{column}"), 0) + 1 FROM "{table}"')  # noqa: S608
        connection.execute(select(func.setval(drawn, connection.scalar(highest), False)))
