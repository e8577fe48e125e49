"""How clocks, heartbeats, switches and databases are judged."""

from datetime import timedelta

import pytest

from scraper_pipeline.checkup.automation import Automatic, Heartbeat, judge_automation, judge_daemon
from scraper_pipeline.checkup.database import judge_condition
from scraper_pipeline.checkup.service import judge_clock
from scraper_pipeline.checkup.webhooks import judge_deliveries
from scraper_pipeline.ledger import DeliveryFigures
from scraper_pipeline.ledger.condition import LedgerCondition
from scraper_pipeline.lifecycle.service_clock import ServiceClock

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("bounds", "grade", "said"),
    [
        ((-0.5, 1.5), "ok", "agree"),
        ((9.0, 11.0), "ok", "agree"),
        ((30.0, 31.0), "problem", "30 s ahead of this machine's"),
        ((-31.0, -30.0), "problem", "30 s behind this machine's"),
    ],
)
def test_clocks_differ_only_by_what_is_certain(bounds: tuple[float, float], grade: str, said: str):
    least, most = (timedelta(seconds=seconds) for seconds in bounds)
    found = judge_clock(ServiceClock(least, most), 10.0)
    assert found.grade == grade
    assert said in found.said


@pytest.mark.parametrize(
    ("heartbeats", "grade", "said"),
    [
        ({"SENSOR": Heartbeat(NOW - 20), "SCHEDULER": Heartbeat(NOW - 40)}, "ok", "runs"),
        ({"SENSOR": None, "SCHEDULER": None}, "warning", "never run"),
        (
            {"SENSOR": Heartbeat(NOW - 600), "SCHEDULER": Heartbeat(NOW - 900)},
            "problem",
            "last sign 10 minutes ago",
        ),
        ({"SENSOR": Heartbeat(NOW - 9e4), "SCHEDULER": None}, "problem", "last sign 25 hours ago"),
        ({"SENSOR": Heartbeat(NOW), "RUN_MONITORING": None}, "problem", "no sign: run monitoring"),
        ({"SENSOR": Heartbeat(NOW, True), "SCHEDULER": Heartbeat(NOW)}, "warning", "report errors: sensor"),
    ],
)
def test_the_daemon_is_judged_by_the_age_of_its_signs(
    heartbeats: dict[str, Heartbeat | None], grade: str, said: str
):
    found = judge_daemon(heartbeats, NOW)
    assert found.grade == grade
    assert said in found.said


def test_what_the_code_switches_on_and_somebody_has_switched_off_is_named():
    pump, daily = Automatic("pump", is_on_by_default=True), Automatic("daily", is_on_by_default=False)
    good = judge_automation([pump, daily])
    assert (good.grade, good.said) == ("ok", "pump are on; daily are off until you switch them on.")
    stopped = judge_automation([Automatic("pump", True, False), Automatic("daily", False, True)])
    assert (stopped.grade, stopped.said) == ("warning", "Somebody has switched off pump.")


@pytest.mark.parametrize(
    ("condition", "grades"),
    [
        (LedgerCondition("SQLite 3", "0006", 0), ["ok"]),
        (LedgerCondition("SQLite 3", None, 6), ["ok"]),
        (LedgerCondition("SQLite 3", "0004", 2), ["warning"]),
        (LedgerCondition("SQLite 3", "9999", None), ["problem"]),
        (LedgerCondition("PostgreSQL 18", "0006", 0, True, True, True), ["ok"]),
        (LedgerCondition("PostgreSQL 18", "0006", 0, True, True, False), ["ok", "warning"]),
        (LedgerCondition("PostgreSQL 18", None, 6, True, True, False), ["ok"]),
        (LedgerCondition("PostgreSQL 18", "0006", 0, True, False, False), ["ok", "warning"]),
        (LedgerCondition("PostgreSQL 13", "0006", 0), ["ok", "warning"]),
        (LedgerCondition("PostgreSQL 18", "0006", 0, False, True, True), ["ok", "warning"]),
    ],
)
def test_a_database_is_judged_by_what_was_seen_of_it(condition: LedgerCondition, grades: list[str]):
    assert [one.grade for one in judge_condition(condition, "the ledger")] == grades


@pytest.mark.parametrize(
    ("acknowledged", "refused", "grade", "said"),
    [
        (0, {}, None, ""),
        (95, {"401": 3, "failed": 2}, None, ""),
        (80, {"401": 15, "503": 5}, "warning", "20 of 100 deliveries were refused: 15 of 401, 5 of 503."),
        (0, {"401": 3}, "problem", "In the last hour no delivery was taken: 3 of 401."),
    ],
)
def test_deliveries_that_are_not_taken_are_told_with_what_may_be_the_cause(
    acknowledged: int, refused: dict[str, int], grade: str | None, said: str
) -> None:
    figures = DeliveryFigures(acknowledged + sum(refused.values()), acknowledged, refused, 0.1, 0.2, None)
    found = judge_deliveries(figures)
    assert [str(one.grade) for one in found] == ([grade] if grade else [])
    assert all(
        said in one.said and "secrets of the last registration or rotation" in one.advice for one in found
    )
