"""Deliveries of webhooks, committed many at a time: a batch is one transaction, and durable once `commit` returns."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Text,
    bindparam,
    case,
    func,
    literal,
    or_,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY

from scraper_pipeline.ledger.base import StorePart
from scraper_pipeline.ledger.schema import UtcDateTime, processed_events, quarantine

_event = processed_events.c
_NEWS = ("job_id", "event_type", "delivery_id")

_columns = func.unnest(*(bindparam(name, type_=ARRAY(Text)) for name in _NEWS)).table_valued(
    *_NEWS, name="delivered"
)
_columns = _columns.render_derived()
_DELIVERED_ON_POSTGRES = select(*(_columns.c[name] for name in _NEWS))

_rows = func.json_each(bindparam("rows", type_=Text)).table_valued("value", name="delivered")
_DELIVERED_ON_SQLITE = (
    select(*(func.json_extract(_rows.c.value, f"$[{place}]").label(name) for place, name in enumerate(_NEWS)))
    .select_from(_rows)
    .where(true())  # without any WHERE, SQLite takes the ON of an upsert for that of a join
)
_KNOWN_ON_SQLITE = select(_event.job_id).where(
    _event.webhook_at.is_not(None), _event.job_id.in_(select(func.json_extract(_rows.c.value, "$[0]")))
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One verified delivery: the job that it brings news of, and what it called itself."""

    job_id: str
    event_type: str | None = None
    delivery_id: str | None = None


@dataclass(frozen=True, slots=True)
class QuarantinedBody:
    """A signed body that can't be used, or the beginning of it, kept for the operator."""

    reason: str
    body: bytes = field(repr=False)
    source: str = "webhook"


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
        news: set[str] = set()
        on_postgres = self.engine.dialect.name == "postgresql"
        if on_postgres and not quarantined:
            # One statement is a transaction in itself, and spares the round trips of BEGIN and COMMIT.
            with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                news = self._record_on_postgres(connection, batch, now)
        else:
            record = self._record_on_postgres if on_postgres else self._record_on_sqlite
            with self.writing() as connection:
                if batch:
                    news = record(connection, batch, now)
                if quarantined:
                    connection.execute(quarantine.insert(), [self._row(one, now) for one in quarantined])
        if len(batch) == len(deliveries):
            return [delivery.job_id in news for delivery in deliveries]
        return [
            delivery.job_id in news and first_of_job[delivery.job_id] is delivery for delivery in deliveries
        ]

    def _row(self, body: QuarantinedBody, now: datetime) -> dict[str, Any]:
        told = {"source": body.source, "reason": body.reason, "body": body.body}
        return {**self.scope_values, **told, "received_at": now}

    def check(self) -> None:
        """Raise what a commit would raise if the database can't be reached."""
        with self.reading() as connection:
            connection.execute(select(_event.job_id).limit(1))

    def _record_on_postgres(
        self, connection: Connection, batch: Sequence[Delivery], now: datetime
    ) -> set[str]:
        columns = {name: [getattr(one, name) for one in batch] for name in _NEWS}
        touched = connection.execute(self._statement, {**columns, "now": now})
        return {job_id for job_id, is_news in touched if is_news}

    def _record_on_sqlite(self, connection: Connection, batch: Sequence[Delivery], now: datetime) -> set[str]:
        # One statement for the whole batch: sqlite3 gives the interpreter's lock away, and has to win it back from
        # the event loop, for every row that it is handed.
        rows = {"rows": json.dumps([[one.job_id, one.event_type, one.delivery_id] for one in batch])}
        known = set(connection.scalars(_KNOWN_ON_SQLITE, rows))
        connection.execute(self._statement, {**rows, "now": now})
        return {one.job_id for one in batch} - known

    @cached_property
    def _statement(self) -> Executable:
        """The upsert of a batch, built once: building it takes longer than running it."""
        on_postgres = self.engine.dialect.name == "postgresql"
        now = bindparam("now", type_=UtcDateTime)
        constants: Mapping[str, ColumnElement[Any]] = {
            "account": literal(self.scope.account, Text),
            "feed": literal(self.scope.feed, Text),
            **dict.fromkeys(("webhook_at", "received_at", "available_at"), now),
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
        return upsert.returning(_event.job_id, _event.webhook_at == now) if on_postgres else upsert
