"""The roles of deploy/postgres: a receiver does all its work under its own; whoever takes it over can do no more."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from scraper_pipeline.exporter import LedgerCollector
from scraper_pipeline.ledger import Ledger, LedgerUnavailable
from scraper_pipeline.publishing import Retention, open_place, prune, publish_pages
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    PERMANENT,
    HandClock,
    accept,
    finish,
    page,
)
from scraper_pipeline_tests.integration.receiver.receiving import (
    ReceiverProcess,
    new_job_id,
    running_receiver,
)
from scraper_pipeline_tests.postgres import EphemeralPostgres
from scraper_pipeline_tests.roles import LEDGER_ROLES, Roles

pytestmark = pytest.mark.postgres


def _refusal(roles: Roles, role: str, statement: str) -> str:
    """What the server answers to a statement that a role may not make. Fails if it may."""
    engine = sa.create_engine(roles.url(role), poolclass=sa.NullPool)
    with pytest.raises(sa.exc.ProgrammingError) as refused, engine.begin() as connection:
        connection.exec_driver_sql(statement)
    return str(refused.value.orig)


@pytest.fixture(scope="module")
def roles(postgres_server: EphemeralPostgres) -> Iterator[Roles]:
    """The ledger as docs/deploy.md sets it up: roles, migration by the owner, grants; each script twice."""
    with postgres_server.database() as database:
        roles = Roles(postgres_server, database)
        for _ in range(2):
            roles.make()
        Ledger.open(roles.url("scraper_owner")).close()
        for _ in range(2):
            roles.run("grants.sql")
        yield roles


@pytest.fixture(scope="module")
def receiver(roles: Roles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReceiverProcess]:
    folder = tmp_path_factory.mktemp("receiver")
    with running_receiver(roles.url("scraper_receiver"), folder) as receiver:
        yield receiver


def test_it_accepts_counts_duplicates_and_quarantines(roles: Roles, receiver: ReceiverProcess) -> None:
    job_id = new_job_id()
    assert receiver.deliver(job_id).outcome == "accepted"
    assert receiver.deliver(job_id).outcome == "duplicate"
    assert receiver.post(b"no JSON").outcome == "quarantined"
    with Ledger.open(roles.url("scraper_pipeline")) as ledger:
        assert ledger.inbox.quarantined() == 1
        assert [row.job_id for row in _events(ledger)] == [job_id]
    assert receiver.get("/readyz").status == 200


def test_it_reopens_what_was_given_up(roles: Roles, receiver: ReceiverProcess) -> None:
    job_id = new_job_id()
    roles.execute(
        "INSERT INTO processed_events (job_id, received_at, available_at, given_up_at)"
        " VALUES (%s, now(), now(), now())",
        job_id,
    )
    assert receiver.deliver(job_id).outcome == "accepted"
    with Ledger.open(roles.url("scraper_pipeline")) as ledger:
        [row] = [row for row in _events(ledger) if row.job_id == job_id]
    assert row.given_up_at is None
    assert row.webhook_at is not None


def _events(ledger: Ledger) -> list[sa.Row[tuple[str, str | None, str | None]]]:
    with ledger.engine.connect() as connection:
        found = connection.execute(sa.text("SELECT job_id, webhook_at, given_up_at FROM processed_events"))
        return list(found)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT url FROM submissions",
        "SELECT markdown FROM results",
        "SELECT url FROM current_results",
        "SELECT * FROM dead_letters",
        "SELECT * FROM webhooks",
        "SELECT body FROM quarantine",
        "SELECT processed_at FROM processed_events",
        "INSERT INTO submissions (url) VALUES ('https://example.com/')",
        "INSERT INTO processed_events (job_id, processed_at) VALUES ('j', now())",
        "UPDATE processed_events SET processed_at = now()",
        "UPDATE processed_events SET claimed_by = NULL",
        "UPDATE quarantine SET resolved_at = now()",
        "DELETE FROM processed_events",
        "DELETE FROM quarantine",
        "TRUNCATE processed_events",
        "CREATE TABLE mine (id int)",
        "CREATE TEMPORARY TABLE mine (id int)",
        "UPDATE alembic_version SET version_num = '0001'",
    ],
)
def test_it_may_do_nothing_else(roles: Roles, statement: str) -> None:
    assert "permission denied" in _refusal(roles, "scraper_receiver", statement)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE results",
        "ALTER TABLE results ADD mine int",
        "CREATE TABLE mine (id int)",
        "DELETE FROM alembic_version",
    ],
)
def test_the_pipeline_changes_rows_and_no_table(roles: Roles, statement: str) -> None:
    assert re.search("permission denied|must be owner", _refusal(roles, "scraper_pipeline", statement))


def test_metrics_are_read_by_a_role_that_sees_no_page_and_writes_nothing(roles: Roles) -> None:
    with Ledger.open(roles.url("scraper_metrics")) as ledger:
        [up, *_] = samples = [
            sample for metric in LedgerCollector(ledger).collect() for sample in metric.samples
        ]
    assert (up.name, up.value) == ("scraper_ledger_up", 1)
    assert len(samples) > 5
    for statement in (
        "SELECT markdown FROM results",
        "SELECT body FROM quarantine",
        "UPDATE submissions SET state = 'planned'",
        "DELETE FROM partitions",
    ):
        assert "permission denied" in _refusal(roles, "scraper_metrics", statement)


@pytest.mark.parametrize("role", LEDGER_ROLES)
def test_what_a_lost_host_has_locked_is_free_within_a_minute_or_so(roles: Roles, role: str) -> None:
    """By the system's own default the server believes in a silent session for two hours."""
    engine = sa.create_engine(roles.url(role), poolclass=sa.NullPool)
    with engine.connect() as connection:
        idle, interval, count = (
            int(str(connection.scalar(sa.text(f"SELECT current_setting('tcp_keepalives_{name}')"))))
            for name in ("idle", "interval", "count")
        )
    assert 0 < idle + interval * count <= 90


def test_the_pipeline_plans_submits_stores_prunes_and_forgets(roles: Roles, tmp_path: Path) -> None:
    long_ago = HandClock()
    with Ledger.open(roles.url("scraper_pipeline"), clock=long_ago) as ledger:
        [stored, parked] = accept(ledger, "https://example.com/", "https://example.com/gone")
        finish(ledger, {stored: page("# A page"), parked: PERMANENT})
        assert ledger.progress.of(DAY).is_settled
        place = open_place(str(tmp_path / "pages"))
        publish_pages(ledger, place, DAY)
        long_ago.advance(100 * 24 * 3600)
        keep = Retention(content_days=30, news_days=30, letters_days=30)
        pruned = prune(ledger, place, keep, long_ago().date())
        assert (pruned.days, pruned.pages) == ((DAY,), 1)
        assert pruned.traces.events == 2


def test_before_the_owner_has_migrated_nobody_else_begins_to(postgres_server: EphemeralPostgres) -> None:
    with postgres_server.database() as database:
        roles = Roles(postgres_server, database)
        roles.make()
        for role in ("scraper_pipeline", "scraper_receiver", "scraper_metrics"):
            with pytest.raises(LedgerUnavailable, match="may not change it"):
                Ledger.open(roles.url(role))
