"""The ledger's tables. They are public for reading; the migrations beside this file create them."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    DateTime,
    Dialect,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    TypeDecorator,
    literal_column,
    or_,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB

from scraper_pipeline.ledger.records import State


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC time on both databases; a naive one is a mistake of the caller."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("the ledger takes aware times only")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


JsonDocument = JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
RowId = BigInteger().with_variant(Integer, "sqlite")

metadata = MetaData()


def _scope() -> tuple[Column[Any], Column[Any]]:
    return (
        Column("account", Text, nullable=False, server_default="default"),
        Column("feed", Text, nullable=False, server_default="default"),
    )


submissions = Table(
    "submissions",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    *_scope(),
    Column("partition_key", Text, nullable=False),
    Column("target_id", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("first_attempt", Integer, nullable=False, server_default="1"),
    Column("url", Text, nullable=False),
    Column("url_hash", Text, nullable=False),
    Column("options", JsonDocument, nullable=False),
    Column("labels", JsonDocument, nullable=False),
    Column("kind", Text, nullable=False, server_default="extract"),
    Column("state", Text, nullable=False),
    Column("planned_at", UtcDateTime, nullable=False),
    Column("not_before", UtcDateTime),
    Column("request_id", Text),
    Column("sent_at", UtcDateTime),
    Column("lease_until", UtcDateTime),
    Column("job_id", Text),
    Column("item_key", Text),
    Column("accepted_at", UtcDateTime),
    Column("settled_at", UtcDateTime),
    Column("given_up", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint(f"state IN ({', '.join(repr(str(s)) for s in State)})", name="ck_submissions_state"),
    CheckConstraint("state <> 'accepted' OR job_id IS NOT NULL", name="ck_submissions_accepted_has_job"),
    CheckConstraint(
        "state <> 'sending' OR request_id IS NOT NULL", name="ck_submissions_sending_has_request"
    ),
)

# States in predicates are literals, never bound parameters: neither engine matches a parameter to a partial index.
LITERAL: dict[State, ColumnElement[str]] = {state: literal_column(f"'{state}'") for state in State}

_live = submissions.c.state != LITERAL[State.SUPERSEDED]
_planned = submissions.c.state == LITERAL[State.PLANNED]
_sending = submissions.c.state == LITERAL[State.SENDING]
_accepted = submissions.c.state == LITERAL[State.ACCEPTED]
_given_up = submissions.c.given_up.is_(true())
_waiting = submissions.c.state.in_([LITERAL[State.PLANNED], LITERAL[State.SENDING]])


def _partial(name: str, *columns: Column[Any], where: Any, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


_c = submissions.c
Index("uq_submissions_attempt", _c.account, _c.feed, _c.partition_key, _c.target_id, _c.attempt, unique=True)
_partial("uq_submissions_live", _c.account, _c.feed, _c.partition_key, _c.target_id, where=_live, unique=True)
_partial("uq_submissions_sending_url", _c.account, _c.url_hash, where=_sending, unique=True)
Index("uq_submissions_job_item", _c.job_id, _c.item_key, unique=True)
Index("ix_submissions_state", _c.account, _c.feed, _c.state, _c.partition_key)
_partial("ix_submissions_planned", _c.account, _c.feed, _c.partition_key, _c.id, where=_planned)
_partial("ix_submissions_waiting_url", _c.account, _c.url_hash, where=_waiting)
_partial("ix_submissions_sending", _c.lease_until, where=_sending)
_partial("ix_submissions_accepted", _c.account, _c.sent_at, where=_accepted)
_partial("ix_submissions_given_up", _c.account, _c.sent_at, where=_given_up)
Index("ix_submissions_request", _c.request_id)
Index("ix_submissions_sent", _c.account, _c.sent_at)

jobs = Table(
    "jobs",
    metadata,
    Column("job_id", Text, primary_key=True),
    *_scope(),
    Column("partition_key", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("sent_at", UtcDateTime, nullable=False),
    Column("accepted_at", UtcDateTime, nullable=False),
    Column("next_look_at", UtcDateTime),
    Column("looks", Integer, nullable=False, server_default="0"),
    Column("missing_since", UtcDateTime),
    Column("completed_at", UtcDateTime),
    Column("pages_read", Integer, nullable=False, server_default="0"),
    Column("pages_failed", Integer, nullable=False, server_default="0"),
)
_partial("ix_jobs_due", jobs.c.account, jobs.c.next_look_at, where=jobs.c.next_look_at.is_not(None))
Index("ix_jobs_accepted", jobs.c.account, jobs.c.kind, jobs.c.accepted_at)

processed_events = Table(
    "processed_events",
    metadata,
    Column("job_id", Text, primary_key=True),
    *_scope(),
    Column("event_type", Text),
    Column("delivery_id", Text),
    Column("webhook_at", UtcDateTime),
    Column("poll_at", UtcDateTime),
    Column("delivery_log_at", UtcDateTime),
    Column("sweep_at", UtcDateTime),
    Column("received_at", UtcDateTime, nullable=False),
    Column("available_at", UtcDateTime, nullable=False),
    Column("claimed_by", Text),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("given_up_at", UtcDateTime),
    Column("processed_at", UtcDateTime),
    Column("replays", Integer, nullable=False, server_default="0"),
    Column("replayed_at", UtcDateTime),
)
_pending = processed_events.c.processed_at.is_(None) & processed_events.c.given_up_at.is_(None)
_partial("ix_events_pending", processed_events.c.account, processed_events.c.available_at, where=_pending)

results = Table(
    "results",
    metadata,
    Column("job_id", Text, nullable=False),
    Column("item_key", Text, nullable=False),
    *_scope(),
    Column("partition_key", Text, nullable=False),
    Column("target_id", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("url", Text, nullable=False),
    Column("labels", JsonDocument, nullable=False),
    Column("http_status", Integer),
    Column("markdown", Text),
    Column("html", Text),
    Column("metadata", JsonDocument, nullable=False),
    Column("tokens_charged", BigInteger),
    Column("content_sha256", Text, nullable=False),
    Column("is_empty", Boolean, nullable=False),
    Column("completed_at", UtcDateTime),
    Column("stored_at", UtcDateTime, nullable=False),
    Column("parent_url", Text),
    Column("depth", Integer),
    PrimaryKeyConstraint("job_id", "item_key", name="pk_results"),
)


def is_unusual(result: Any) -> ColumnElement[bool]:
    """What few results are: empty, or charged with another number of pages than one.

    An index holds these, so that costs are counted without a look at the rows, which are as wide as their pages.
    """
    return or_(result.is_empty.is_(true()), result.tokens_charged != literal_column("1"))


_partial(
    "ix_results_unusual", results.c.job_id, results.c.item_key, results.c.is_empty, results.c.tokens_charged,
    where=is_unusual(results.c),
)  # fmt: skip
Index("ix_results_target", results.c.account, results.c.feed, results.c.partition_key, results.c.target_id)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("job_id", Text),
    Column("item_key", Text),
    *_scope(),
    Column("partition_key", Text, nullable=False),
    Column("target_id", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("error_code", Text, nullable=False),
    Column("error_message", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("parked_at", UtcDateTime, nullable=False),
    Column("resolved_at", UtcDateTime),
    Column("resolution", Text),
    Column("note", Text),
)
_d = dead_letters.c
_partial(
    "uq_dead_letters_standing", _d.account, _d.feed, _d.partition_key, _d.target_id,
    where=_d.resolved_at.is_(None) | (_d.resolution == literal_column("'discarded'")), unique=True,
)  # fmt: skip
Index("ix_dead_letters_partition", _d.account, _d.feed, _d.partition_key)

quarantine = Table(
    "quarantine",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    *_scope(),
    Column("source", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("received_at", UtcDateTime, nullable=False),
    Column("resolved_at", UtcDateTime),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("webhook_id", Text, primary_key=True),
    *_scope(),
    Column("url", Text, nullable=False),
    Column("event_type", Text, nullable=False),
    Column("is_active", Boolean, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("rotated_at", UtcDateTime),
    Column("rotation_begun_at", UtcDateTime),
    Column("log_read_until", UtcDateTime),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("webhook_id", Text, nullable=False),
    Column("delivery_id", Text, nullable=False),
    *_scope(),
    Column("event_type", Text),
    Column("job_id", Text),
    Column("attempt_number", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("http_status", Integer),
    Column("created_at", UtcDateTime, nullable=False),
    Column("delivered_at", UtcDateTime),
    Column("seen_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("webhook_id", "delivery_id", name="pk_deliveries"),
)
Index("ix_deliveries_created", deliveries.c.account, deliveries.c.feed, deliveries.c.created_at)
Index("ix_deliveries_job", deliveries.c.job_id)

run_leases = Table(
    "run_leases",
    metadata,
    Column("name", Text, nullable=False),
    *_scope(),
    Column("partition_key", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("name", "account", "feed", "partition_key", name="pk_run_leases"),
)

partitions = Table(
    "partitions",
    metadata,
    *_scope(),
    Column("partition_key", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
    Column("planned_at", UtcDateTime),
    Column("pruned_at", UtcDateTime),
    Column("pruned_revision", BigInteger),
    PrimaryKeyConstraint("account", "feed", "partition_key", name="pk_partitions"),
)

planned_lists = Table(
    "planned_lists",
    metadata,
    *_scope(),
    Column("list", Text, nullable=False),
    Column("partition_key", Text, nullable=False),
    Column("begun_at", UtcDateTime),
    Column("failed_at", UtcDateTime),
    Column("planned_at", UtcDateTime),
    Column("targets", BigInteger, nullable=False, server_default="0"),
    Column("pages", BigInteger, nullable=False, server_default="0"),
    Column("beyond_budget", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("account", "feed", "list", "partition_key", name="pk_planned_lists"),
)
_p = planned_lists.c
Index("ix_planned_lists_partition", _p.account, _p.feed, _p.partition_key)

sweeps = Table(
    "sweeps",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    *_scope(),
    Column("began_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    Column("seen_until", UtcDateTime),
    Column("figures", JsonDocument, nullable=False),
)
Index("ix_sweeps_began", sweeps.c.account, sweeps.c.feed, sweeps.c.began_at)

foreign_jobs = Table(
    "foreign_jobs",
    metadata,
    Column("job_id", Text, primary_key=True),
    *_scope(),
    Column("kind", Text, nullable=False, server_default="extract"),
    Column("url", Text),
    Column("status", Text, nullable=False),
    Column("created_at", UtcDateTime),
    Column("first_seen_at", UtcDateTime, nullable=False),
    Column("last_seen_at", UtcDateTime, nullable=False),
)
Index("ix_foreign_jobs_seen", foreign_jobs.c.account, foreign_jobs.c.feed, foreign_jobs.c.first_seen_at)

current_results = Table(
    "current_results",
    MetaData(),  # a view: the migrations create it, and no table is compared with it
    *(Column(column.name, column.type) for column in results.c),
)
