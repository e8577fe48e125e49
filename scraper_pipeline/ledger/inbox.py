"""Deliveries of webhooks, committed many at a time: a batch is one transaction, and durable once `commit` returns."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Text,
    bindparam,
    case,
    cast,
    column,
    event,
    func,
    literal,
    or_,
    select,
    true,
)

from scraper_pipeline.ledger import database
from scraper_pipeline.ledger.base import StorePart
from scraper_pipeline.ledger.schema import UtcDateTime, processed_events, quarantine

_event = processed_events.c
_NEWS = ("job_id", "event_type", "delivery_id")

_JSON = msgspec.json.Encoder()

# A batch is one JSON array on both databases: drivers take longer over an array of their own, and far longer over rows.
_rows = bindparam("rows", type_=Text)
_elements = func.json_array_elements(cast(_rows, JSON)).table_valued(column("value", JSON), name="delivered")
_DELIVERED_ON_POSTGRES = select(*(_elements.c.value[name].as_string().label(name) for name in _NEWS))
_ACCOUNT_ON_POSTGRES = _elements.c.value["account"].as_string()
_entries = func.json_each(_rows).table_valued("value", name="delivered")
_DELIVERED_ON_SQLITE = (
    select(*(func.json_extract(_entries.c.value, f"$.{name}").label(name) for name in _NEWS))
    .select_from(_entries)
    .where(true())  # without any WHERE, SQLite takes the ON of an upsert for that of a join
)
_ACCOUNT_ON_SQLITE = func.json_extract(_entries.c.value, "$.account")
_is_delivered = _event.job_id.in_(select(func.json_extract(_entries.c.value, "$.job_id")))
_KNOWN_ON_SQLITE = select(_event.job_id).where(_event.webhook_at.is_not(None), _is_delivered)
_now = bindparam("now", type_=UtcDateTime)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One verified delivery: the job that it brings news of, what it called itself, and whose secret verified it.

    Without an account it is the store's own.
    """

    job_id: str
    event_type: str | None = None
    delivery_id: str | None = None
    account: str | None = None


@dataclass(frozen=True, slots=True)
class QuarantinedBody:
    """A signed body that can't be used, or the beginning of it, kept for the operator."""

    reason: str
    body: bytes = field(repr=False)
    source: str = "webhook"
    account: str | None = None


class InboxStore(StorePart):
    """Where webhooks leave their news: the same row a job, and the same effect, as news of any other channel."""

    def commit(
        self, deliveries: Sequence[Delivery], quarantined: Sequence[QuarantinedBody] = ()
    ) -> list[bool]:
        """Keep these; for each delivery, whether it was the first webhook's news of its job.

        The job need not be known yet. A given-up job is reopened; ``processed_at`` is never cleared.
        """
        now = self.clock()
        first_of_job = {delivery.job_id: delivery for delivery in reversed(deliveries)}
        # In one order for all processes: two that insert the same jobs wait for each other, and don't deadlock.
        batch = [first_of_job[job_id] for job_id in sorted(first_of_job)]
        if quarantined:
            with self.writing() as connection:
                news = self._record(connection, batch, now) if batch else set()
                connection.execute(quarantine.insert(), [self._row(one, now) for one in quarantined])
        else:
            with self._kept_connection() as connection, self._alone(connection):
                news = self._record(connection, batch, now)
        if len(batch) == len(deliveries):
            return [delivery.job_id in news for delivery in deliveries]
        return [
            delivery.job_id in news and first_of_job[delivery.job_id] is delivery for delivery in deliveries
        ]

    def _row(self, body: QuarantinedBody, now: datetime) -> dict[str, Any]:
        told = {"source": body.source, "reason": body.reason, "body": body.body}
        account = body.account or self.scope.account
        return {**self.scope_values, "account": account, **told, "received_at": now}

    def quarantined(self) -> int:
        """How many bodies stand in quarantine that nobody has resolved."""
        with self.reading() as connection:
            count = connection.scalar(
                select(func.count())
                .select_from(quarantine)
                .where(self.in_scope(quarantine), quarantine.c.resolved_at.is_(None))
            )
        return count or 0

    def check(self) -> None:
        """Raise what a commit would raise if the database can't be reached."""
        with self.reading() as connection:
            connection.execute(select(_event.job_id).limit(1))

    @contextmanager
    def _kept_connection(self) -> Iterator[Connection]:
        """One that outlasts the batch: the pool would ask the database each time whether it is still there."""
        connection = self._kept.pop() if self._kept else database.connect_at_once(self.engine)
        try:
            yield connection
            connection.rollback()  # for SQLAlchemy's books: in the database no transaction is open
        except BaseException:
            # Whatever broke the batch off, a cancellation too, may have left it half used.
            _discard(connection)
            raise
        self._kept.append(connection)

    @contextmanager
    def _alone(self, connection: Connection) -> Iterator[None]:
        """Without another writer in between: on SQLite a batch takes two statements, on Postgres one."""
        if self.engine.dialect.name == "postgresql":
            yield
            return
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield
        connection.exec_driver_sql("COMMIT")

    @cached_property
    def _kept(self) -> deque[Connection]:
        kept: deque[Connection] = deque()

        @event.listens_for(self.engine, "engine_disposed")
        def discard_all(_: Engine) -> None:
            while kept:
                _discard(kept.pop())

        return kept

    def _record(self, connection: Connection, batch: Sequence[Delivery], now: datetime) -> set[str]:
        """The jobs of which this was the first webhook's news."""
        bound = {"rows": _JSON.encode(batch).decode(), "now": now}
        if self.engine.dialect.name == "postgresql":
            return set(connection.scalar(self._statement, bound) or ())
        # sqlite3 gives the interpreter's lock away, and has to win it back from the event loop, for every row that it
        # is handed or hands out: so it is asked for the jobs that were known, of which there are few.
        known = set(connection.scalars(_KNOWN_ON_SQLITE, bound))
        news = {one.job_id for one in batch} - known
        connection.execute(self._statement, bound)
        return news

    @cached_property
    def _statement(self) -> Executable:
        """The upsert of a batch, built once: building it takes longer than running it."""
        on_postgres = self.engine.dialect.name == "postgresql"
        account = _ACCOUNT_ON_POSTGRES if on_postgres else _ACCOUNT_ON_SQLITE
        constants: Mapping[str, ColumnElement[Any]] = {
            "account": func.coalesce(account, literal(self.scope.account, Text)),
            "feed": literal(self.scope.feed, Text),
            **dict.fromkeys(("webhook_at", "received_at", "available_at"), _now),
        }
        delivered = (_DELIVERED_ON_POSTGRES if on_postgres else _DELIVERED_ON_SQLITE).add_columns(
            *(value.label(name) for name, value in constants.items())
        )
        statement = self.insert(processed_events).from_select([*_NEWS, *constants], delivered)
        new = statement.excluded
        is_first, is_given_up = _event.webhook_at.is_(None), _event.given_up_at.is_not(None)
        upsert = statement.on_conflict_do_update(
            index_elements=["job_id"],
            set_={
                "webhook_at": func.coalesce(_event.webhook_at, new.webhook_at),
                "event_type": case((is_first, new.event_type), else_=_event.event_type),
                "delivery_id": case((is_first, new.delivery_id), else_=_event.delivery_id),
                "given_up_at": None,
                "available_at": case((is_given_up, new.available_at), else_=_event.available_at),
            },
            where=or_(is_first, is_given_up),  # a mere duplicate writes nothing
        )
        if not on_postgres:
            return upsert
        touched = upsert.returning(_event.job_id, (_event.webhook_at == _now).label("is_news")).cte("touched")
        return select(func.array_agg(touched.c.job_id)).where(touched.c.is_news)


def _discard(connection: Connection) -> None:
    connection.invalidate()
    connection.close()
