"""How a drill ends: everything settled and green, the books compared, and its figures."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy import func, select

from scraper_pipeline.ledger import Channel
from scraper_pipeline.ledger.schema import deliveries, processed_events, results
from scraper_pipeline_tests.chaos.stage import FINISH_SECONDS
from scraper_pipeline_tests.chaos.verdict import Verdict, ended_targets, judge
from scraper_pipeline_tests.drill.plan import Plan
from scraper_pipeline_tests.drill.production import AWAY, DrillFailed, Production

_SHOW_SECONDS = 15.0
_LONGEST_LIST = 10
_FEW = 100
_CALM_FROM = 0.3  # of the targets


def wait_until_settled(
    production: Production, plan: Plan, deadline: float, meanwhile: Callable[[], object] = lambda: None
) -> None:
    """Wait for all targets to have ended and for all days to be green. Raises DrillFailed.

    The faults are switched off once there is little left for them to strike.
    """
    next_show, next_finish, is_calm = 0.0, 0.0, False
    while True:
        production.tend()
        left, pale = plan.targets, list(plan.days)
        try:
            left = plan.targets - ended_targets(production.ledger)
            pale = [day for day in plan.days if not production.ui.is_materialized("stored_results", day)]
            meanwhile()
        except AWAY:
            pass
        if not is_calm and left < _CALM_FROM * plan.targets:
            production.sandbox.calm_down()
            is_calm = True
        if not left and not pale:
            return
        if time.monotonic() > deadline:
            raise DrillFailed(f"{left} targets have not ended, and these days are not green: {pale}")
        if time.monotonic() > next_show:
            next_show = time.monotonic() + _SHOW_SECONDS
            production.show(f"{left} targets have not ended, {len(pale)} days are not green")
        if is_calm and time.monotonic() > next_finish and left <= max(_FEW, plan.targets // 20):
            production.sandbox.finish_jobs()
            next_finish = time.monotonic() + 3 * FINISH_SECONDS
        production.tend_for(1.0)


@dataclass(frozen=True)
class Report:
    """What a drill has to say for itself."""

    scenario: str
    figures: dict[str, Any]
    verdict: Verdict
    audit_exit_code: int

    @property
    def is_good(self) -> bool:
        return not self.verdict.offences and not self.audit_exit_code

    @property
    def offences(self) -> Sequence[str]:
        return [
            f"{one.rule}  {one.partition_key} {one.target_id}  {one.detail}"
            for one in self.verdict.offences[:_LONGEST_LIST]
        ]


def report(
    scenario: str, production: Production, plan: Plan, seconds: float, more: dict[str, Any] | None = None
) -> Report:
    """Hold what is left against what really happened."""
    targets = [(day, url) for day in plan.days for url in plan.urls(day, production.sandbox.url)]
    verdict = judge(production.ledger, production.sandbox, targets)
    audit = production.command("audit", check=False)
    if audit.returncode:
        production.show(audit.stdout + audit.stderr)
    return Report(scenario, _figures(production, plan, seconds, verdict, more), verdict, audit.returncode)


def _figures(
    production: Production, plan: Plan, seconds: float, verdict: Verdict, more: dict[str, Any] | None
) -> dict[str, Any]:
    found = verdict.figures
    channels: Counter[str] = Counter()
    for day in plan.days:
        for channel, figures in production.ledger.channels.of(day).items():
            channels[channel] += figures.first
    services = production.services.values()
    stamp = func.extract("epoch", results.c.stored_at - results.c.completed_at)
    with production.ledger.engine.connect() as connection:
        p50, p95 = connection.execute(
            select(*(func.percentile_cont(share).within_group(stamp) for share in (0.5, 0.95)))
        ).one()
        answers: dict[int | None, int] = dict(
            connection.execute(
                select(deliveries.c.http_status, func.count()).group_by(deliveries.c.http_status)
            )
            .tuples()
            .all()
        )
        by_log = connection.scalar(
            select(func.count())
            .select_from(processed_events)
            .where(processed_events.c.delivery_log_at.is_not(None))
        )
    return {
        "seed": plan.seed,
        "targets": plan.targets,
        "days": len(plan.days),
        "wall_seconds": round(seconds, 1),
        "jobs": found["jobs"],
        "stored": found["stored"],
        "requests_a_result": round(found["requests"] / max(1, found["stored"]), 3),
        "faults": sum(found["faults"].values()),
        "restarts": {one.name: dict(one.strikes) for one in services if one.strikes},
        "failed_by_themselves": {one.name: one.failures for one in services if one.failures},
        "runs_killed": production.runs_killed,
        "launched_again": production.launched_again,
        "postgres_away_seconds": [round(one, 1) for one in production.away_seconds],
        "runs": _runs(production),
        "deliveries_attempted": found["deliveries"],
        "deliveries_acknowledged": found["deliveries_acknowledged"],
        "delivery_log_by_status": {str(status): count for status, count in answers.items()},
        "news_from_delivery_log": by_log,
        "news_first_by_channel": {str(channel): channels[channel] for channel in Channel},
        "completed_to_stored_p50": round(float(p50 or 0), 2),
        "completed_to_stored_p95": round(float(p95 or 0), 2),
        "resubmitted": found["resubmitted"],
        "dead_letters": found["dead_letters"],
        "lost": len(verdict.lost),
        "stored_twice": len(verdict.stored_twice),
        "paid_twice": len(verdict.paid_twice),
        "in_windows": len(verdict.in_windows),
        "largest_mb": {kind: round(mb) for kind, mb in sorted(production.census.largest_mb.items())},
        "cpu_seconds": {kind: round(cpu) for kind, cpu in sorted(production.census.cpu_seconds.items())},
        "ledger_mb": round(_size(production, "ledger")),
        "dagster_mb": round(_size(production, "dagster")),
        **(more or {}),
    }


def _size(production: Production, database: str) -> float:
    with _connect(production, "postgres") as connection:
        row = connection.execute("SELECT pg_database_size(%s)", (database,)).fetchone()
        return row[0] / 2**20 if row else 0.0


def _runs(production: Production) -> dict[str, int]:
    with _connect(production, "dagster") as connection:
        return dict(connection.execute("SELECT status, count(*) FROM runs GROUP BY status").fetchall())


def _connect(production: Production, database: str) -> psycopg.Connection[Any]:
    return psycopg.connect(production.postgres.url(database).replace("+psycopg", ""))
