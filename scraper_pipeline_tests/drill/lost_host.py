"""Two hosts: the one with the runs and the second receiver is cut off for a while, and later lost and replaced."""

import signal
import sys
import time
from pathlib import Path

import psycopg

from scraper_pipeline_tests.chaos.verdict import ended_targets
from scraper_pipeline_tests.drill import open_transaction
from scraper_pipeline_tests.drill.ending import Report, report, wait_until_settled
from scraper_pipeline_tests.drill.hosts import NETWORK, Host, Network, network
from scraper_pipeline_tests.drill.installation import Layout
from scraper_pipeline_tests.drill.plan import Plan
from scraper_pipeline_tests.drill.production import AWAY, Production, Show, production
from scraper_pipeline_tests.drill.units import Unit

_CUT_OFF_SECONDS = 60.0
_UNTIL_REPLACED_SECONDS = 30.0
_LONGEST_RECOVERY = 900.0
_ON_BACK = ("code-server", "receiver-2")


def run(plan: Plan, folder: Path, deadline: float, show: Show) -> Report:
    with network() as (hosts, front):
        back = hosts.add("back")
        with production(
            folder,
            plan,
            show,
            layout=Layout(front, back),
            network=NETWORK,
            settings={"SCRAPER_SUBMISSION_MODE": "extract"},
        ) as found:
            began = time.monotonic()
            found.rain()
            days = list(plan.days)
            half = max(1, len(days) // 2)
            for day in days[:half]:
                found.begin(day, plan)
            _meet_a_run(found)
            after_cut = _cut_off(found, hosts, back)
            for day in days[half:]:
                found.begin(day, plan)
            _meet_a_run(found)
            after_loss, left_behind = _lose(found, hosts, back)
            wait_until_settled(found, plan, deadline)
            more = {
                "cut_off_seconds": _CUT_OFF_SECONDS,
                "stored_again_after_cut_seconds": round(after_cut, 1),
                "host_away_seconds": _UNTIL_REPLACED_SECONDS,
                "stored_again_after_replacement_seconds": round(after_loss, 1),
                "sessions_of_the_lost_host_at_replacement": left_behind,
            }
            return report("hosts", found, plan, time.monotonic() - began, more)


def _meet_a_run(found: Production) -> None:
    """Go on once something has been stored and a run is at work."""
    before = ended_targets(found.ledger)
    found.wait_for(lambda: ended_targets(found.ledger) > before and bool(found.runs()), 300, "a run at work")


def _cut_off(found: Production, hosts: Network, back: Host) -> float:
    found.show("the link of the back host is cut")
    hosts.cut_off(back)
    found.tend_for(_CUT_OFF_SECONDS)
    hosts.connect_again(back)
    found.show("the link is back")
    return _seconds_until_progress(found)


def _lose(found: Production, hosts: Network, back: Host) -> tuple[float, int]:
    """The link first, so that nobody is told of the end of the processes; one of them is in the middle of a commit."""
    unit = Unit((sys.executable, "-m", open_transaction.__name__), found.installation.environ)
    holder = found.add("open-transaction", unit, back)
    found.wait_for(lambda: "holding" in holder.last_lines(), 60, "a transaction to be open")
    found.show("the back host is lost")
    hosts.cut_off(back)
    for name in (*_ON_BACK, holder.name):
        found.services[name].stop(signal.SIGKILL)
    hosts.remove(back)
    found.tend_for(_UNTIL_REPLACED_SECONDS)
    left_behind = _sessions(found, back)
    replacement = hosts.add(back.name, back.address)
    for name in _ON_BACK:
        found.services[name].host = replacement
        found.services[name].start()
    found.show(f"a replacement is up; {left_behind} sessions of the lost host are open at the database")
    return _seconds_until_progress(found), left_behind


def _sessions(found: Production, back: Host) -> int:
    url = found.postgres.url().replace("+psycopg", "")
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE client_addr = %s", (back.address,)
        ).fetchone()
    return row[0] if row else 0


def _seconds_until_progress(found: Production) -> float:
    began = time.monotonic()
    before = _ended(found)
    found.wait_for(
        lambda: ended_targets(found.ledger) > before, _LONGEST_RECOVERY, "pages to be stored again"
    )
    return time.monotonic() - began


def _ended(found: Production) -> int:
    while True:
        try:
            return ended_targets(found.ledger)
        except AWAY:
            found.tend_for(0.5)
