"""Our webhooks, what the service's log says of their deliveries, and replays on purpose."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update

from scraper_pipeline.ledger.base import StorePart, chunked, quantile
from scraper_pipeline.ledger.records import Channel
from scraper_pipeline.ledger.schema import deliveries, jobs, processed_events, webhooks

_hook, _attempt, _event, _job = webhooks.c, deliveries.c, processed_events.c, jobs.c


@dataclass(frozen=True)
class RegisteredWebhook:
    """A webhook that we have registered; its secret is elsewhere.

    ``rotation_begun_at`` is set while it is open whether the secret that we keep is still the service's.
    """

    webhook_id: str
    url: str
    event_type: str
    is_active: bool
    created_at: datetime
    rotated_at: datetime | None = None
    rotation_begun_at: datetime | None = None


@dataclass(frozen=True)
class DeliveryAttempt:
    """One line of the delivery log: one attempt, which was acknowledged if its HTTP status is a 2xx."""

    webhook_id: str
    delivery_id: str
    event_type: str | None
    job_id: str | None
    attempt_number: int
    status: str
    http_status: int | None
    created_at: datetime
    delivered_at: datetime | None


@dataclass(frozen=True)
class DeliveryFigures:
    """The deliveries of a span of time; latency runs from a job's completion to its acknowledgement, in seconds.

    ``attempts`` also counts those that are still to be made; ``last_delivery_at`` is of those acknowledged.
    """

    attempts: int
    acknowledged: int
    refused: dict[str, int]
    latency_p50: float
    latency_p95: float
    last_delivery_at: datetime | None


@dataclass(frozen=True)
class ReplayReport:
    """Of the jobs asked for: those taken up again, those already done, and those that are not ours."""

    taken_up: int = 0
    already_done: int = 0
    not_ours: int = 0


_NOT_DELIVERED = ("failed", "abandoned")
_is_acknowledged = and_(_attempt.http_status.is_not(None), _attempt.http_status.between(200, 299))
# Without an HTTP status, only these words say that an attempt was made: the service has others, unlisted.
_has_ended = or_(_attempt.http_status.is_not(None), _attempt.status.in_(_NOT_DELIVERED))


class WebhookStore(StorePart):
    """The registration of webhooks, and the second reading of their deliveries."""

    def remember(self, webhook: RegisteredWebhook) -> None:
        """Note a webhook as ours, or what has changed of it; when it was rotated stays known."""
        row = {**self.scope_values, **webhook.__dict__}
        statement = self.insert(webhooks).values(row)
        new = statement.excluded
        changed: dict[str, Any] = {
            name: new[name] for name in ("url", "event_type", "is_active", "rotation_begun_at")
        }
        changed["rotated_at"] = func.coalesce(new.rotated_at, _hook.rotated_at)
        with self.writing() as connection:
            connection.execute(statement.on_conflict_do_update(index_elements=["webhook_id"], set_=changed))

    def forget(self, webhook_id: str) -> None:
        with self.writing() as connection:
            connection.execute(delete(webhooks).where(_hook.webhook_id == webhook_id))

    def registered(self) -> list[RegisteredWebhook]:
        """Our webhooks, by event type."""
        with self.reading() as connection:
            rows = connection.execute(
                select(
                    _hook.webhook_id,
                    _hook.url,
                    _hook.event_type,
                    _hook.is_active,
                    _hook.created_at,
                    _hook.rotated_at,
                    _hook.rotation_begun_at,
                )
                .where(self.in_scope(webhooks))
                .order_by(_hook.event_type, _hook.webhook_id)
            ).all()
        return [RegisteredWebhook(**row._mapping) for row in rows]

    def log_read_until(self, webhook_id: str) -> datetime | None:
        """The newest attempt's time, on the service's clock, when its log was last read to the end; None before."""
        with self.reading() as connection:
            until: datetime | None = connection.scalar(
                select(_hook.log_read_until).where(_hook.webhook_id == webhook_id)
            )
        return until

    def note_log_read(self, webhook_id: str, until: datetime) -> None:
        """What the service's log of this webhook has up to then is recorded without a gap."""
        with self.writing() as connection:
            connection.execute(
                update(webhooks).where(_hook.webhook_id == webhook_id).values(log_read_until=until)
            )

    def record_attempts(self, attempts: Iterable[DeliveryAttempt]) -> int:
        """Keep these lines of the log; one seen before is brought up to date. Returns how many were new."""
        new, now = 0, self.clock()
        for chunk in chunked(attempts):
            rows = [{**self.scope_values, **attempt.__dict__, "seen_at": now} for attempt in chunk]
            by_key = {(row["webhook_id"], row["delivery_id"]): row for row in rows}
            with self.writing() as connection:
                known = connection.scalar(
                    select(func.count())
                    .select_from(deliveries)
                    .where(
                        _attempt.webhook_id.in_(sorted({str(row["webhook_id"]) for row in rows})),
                        _attempt.delivery_id.in_([str(row["delivery_id"]) for row in by_key.values()]),
                    )
                )
                statement = self.insert(deliveries)
                changed: dict[str, Any] = {
                    name: statement.excluded[name] for name in ("status", "http_status", "delivered_at")
                }
                changed["job_id"] = func.coalesce(statement.excluded.job_id, _attempt.job_id)
                connection.execute(
                    statement.on_conflict_do_update(
                        index_elements=["webhook_id", "delivery_id"], set_=changed
                    ),
                    list(by_key.values()),
                )
            new += len(by_key) - (known or 0)
        return new

    def unacknowledged_jobs(self, since: datetime) -> list[str]:
        """Jobs that are not done and whose news nobody of ours has taken: the last attempt that was made was not
        acknowledged, or was by somebody whom the ledger knows nothing of."""
        place = func.row_number().over(
            partition_by=_attempt.job_id,
            order_by=(_attempt.created_at.desc(), _attempt.attempt_number.desc(), _attempt.delivery_id),
        )
        made = (
            select(_attempt.job_id, _is_acknowledged.label("is_acknowledged"), place.label("place"))
            .where(
                self.in_scope(deliveries),
                _attempt.created_at >= since,
                _attempt.job_id.is_not(None),
                _has_ended,
            )
            .subquery()
        )
        with self.reading() as connection:
            return list(
                connection.scalars(
                    select(made.c.job_id)
                    .outerjoin(processed_events, _event.job_id == made.c.job_id)
                    .where(
                        made.c.place == 1,
                        _event.processed_at.is_(None),
                        _event.delivery_log_at.is_(None),
                        or_(_event.webhook_at.is_(None), ~made.c.is_acknowledged),
                    )
                    .order_by(made.c.job_id)
                )
            )

    def jobs_delivered_since(self, since: datetime) -> list[str]:
        """Every job that some attempt since then was about, acknowledged or not."""
        with self.reading() as connection:
            return list(
                connection.scalars(
                    select(_attempt.job_id)
                    .where(
                        self.in_scope(deliveries), _attempt.created_at >= since, _attempt.job_id.is_not(None)
                    )
                    .distinct()
                    .order_by(_attempt.job_id)
                )
            )

    def replay(self, job_ids: Iterable[str]) -> ReplayReport:
        """Have those of these jobs that are of this scope settled once more where anything is left to do.

        Every call is counted.
        """
        now, taken_up, done, strangers = self.clock(), 0, 0, 0
        for chunk in chunked(sorted(set(job_ids))):
            with self.writing() as connection:
                ours = set(
                    connection.scalars(select(_job.job_id).where(self.in_scope(jobs), _job.job_id.in_(chunk)))
                )
                strangers += len(chunk) - len(ours)
                rows = [
                    {
                        **self.scope_values,
                        "job_id": job_id,
                        f"{Channel.DELIVERY_LOG}_at": now,
                        "received_at": now,
                        "available_at": now,
                        "replays": 1,
                        "replayed_at": now,
                    }
                    for job_id in sorted(ours)
                ]
                if not rows:
                    continue
                statement = self.insert(processed_events)
                connection.execute(
                    statement.on_conflict_do_update(
                        index_elements=["job_id"],
                        set_={
                            "delivery_log_at": func.coalesce(
                                _event.delivery_log_at, statement.excluded.delivery_log_at
                            ),
                            "account": statement.excluded.account,
                            "given_up_at": None,
                            "replays": _event.replays + 1,
                            "replayed_at": now,
                        },
                    ),
                    rows,
                )
                finished = connection.scalar(
                    select(func.count())
                    .select_from(processed_events)
                    .where(_event.job_id.in_(sorted(ours)), _event.processed_at.is_not(None))
                )
                connection.execute(
                    update(processed_events)
                    .where(
                        _event.job_id.in_(sorted(ours)),
                        _event.processed_at.is_(None),
                        _event.claimed_by.is_(None),
                    )
                    .values(available_at=now)
                )
                done += finished or 0
                taken_up += len(ours) - (finished or 0)
        return ReplayReport(taken_up, done, strangers)

    def figures(self, since: datetime) -> DeliveryFigures:
        """The deliveries since a moment, as the log tells of them."""
        with self.reading() as connection:
            rows = connection.execute(
                select(
                    _attempt.http_status,
                    _attempt.status,
                    _attempt.created_at,
                    _attempt.delivered_at,
                    _job.completed_at,
                )
                .outerjoin(jobs, _job.job_id == _attempt.job_id)
                .where(self.in_scope(deliveries), _attempt.created_at >= since)
            ).all()
        refused: dict[str, int] = {}
        latencies: list[float] = []
        delivered: list[datetime] = []
        for row in rows:
            if row.http_status is not None and 200 <= row.http_status < 300:
                delivered.append(row.delivered_at or row.created_at)
                if row.completed_at is not None:
                    latencies.append((delivered[-1] - row.completed_at) / timedelta(seconds=1))
            elif row.http_status is not None or row.status in _NOT_DELIVERED:
                kind = str(row.http_status or row.status)
                refused[kind] = refused.get(kind, 0) + 1
        latencies.sort()
        return DeliveryFigures(
            attempts=len(rows),
            acknowledged=len(delivered),
            refused=refused,
            latency_p50=quantile(latencies, 0.5),
            latency_p95=quantile(latencies, 0.95),
            last_delivery_at=max(delivered, default=None),
        )

    def jobs_heard_of_since(self, since: datetime) -> int:
        """Of how many jobs a webhook has brought its first news since then."""
        return self._count_events(_event.webhook_at >= since)

    def jobs_processed_since(self, since: datetime) -> int:
        """How many jobs were settled since then, whichever channel brought the news."""
        return self._count_events(_event.processed_at >= since)

    def _count_events(self, condition: ColumnElement[bool]) -> int:
        statement = select(func.count()).select_from(processed_events)
        with self.reading() as connection:
            return connection.scalar(statement.where(self.in_scope(processed_events), condition)) or 0
