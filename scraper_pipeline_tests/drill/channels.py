"""One way for the news alone: webhooks without polling, polling without webhooks, or secrets that are rotated."""

import time
from pathlib import Path
from typing import Any

from scraper_pipeline.ledger import Channel
from scraper_pipeline_tests.drill.ending import Report, report, wait_until_settled
from scraper_pipeline_tests.drill.plan import Plan
from scraper_pipeline_tests.drill.production import DrillFailed, Production, Show, production
from scraper_pipeline_tests.end_to_end.driving import ENDED

_ONE_BY_ONE = {"SCRAPER_SUBMISSION_MODE": "extract"}
_SWEEP_SECONDS = 60.0
ROTATIONS = 6
_BETWEEN_ROTATIONS = 10.0
_JOBS_END_LATE = ("--min-delay", "5", "--max-delay", "150")


def run_webhooks_only(plan: Plan, folder: Path, deadline: float, show: Show) -> Report:
    """The sweep, by which deliveries that were never made are found, is launched every minute to save the wait."""
    sweeping = {"SCRAPER_POLL": "false", "SCRAPER_SWEEP_AFTER_SECONDS": f"{_SWEEP_SECONDS:g}"}
    with production(folder, plan, show, settings={**_ONE_BY_ONE, **sweeping}) as found:
        began = time.monotonic()
        _launch_all(found, plan)
        next_sweep = began
        sweeps = 0

        def sweep() -> None:
            nonlocal next_sweep, sweeps
            if time.monotonic() > next_sweep and not _is_sweeping(found):
                next_sweep, sweeps = time.monotonic() + _SWEEP_SECONDS, sweeps + 1
                found.ui.launch_sweep()

        wait_until_settled(found, plan, deadline, meanwhile=sweep)
        ended = report("webhooks-only", found, plan, time.monotonic() - began, {"sweeps_launched": sweeps})
    _expect_no_news_by(ended, Channel.POLL)
    return ended


def run_polling_only(plan: Plan, folder: Path, deadline: float, show: Show) -> Report:
    with production(folder, plan, show, settings=_ONE_BY_ONE, with_webhooks=False) as found:
        began = time.monotonic()
        _launch_all(found, plan)
        wait_until_settled(found, plan, deadline)
        ended = report("polling-only", found, plan, time.monotonic() - began)
    _expect_no_news_by(ended, Channel.WEBHOOK, Channel.DELIVERY_LOG)
    return ended


def run_rotation(plan: Plan, folder: Path, deadline: float, show: Show) -> Report:
    """Each rotation while deliveries come; the receivers are given the new file as a unit of its own would do."""
    with production(folder, plan, show, settings=_ONE_BY_ONE, sandbox_options=_JOBS_END_LATE) as found:
        began = time.monotonic()
        _launch_all(found, plan)
        told = []
        for _ in range(ROTATIONS):
            found.tend_for(_BETWEEN_ROTATIONS)
            told.append(found.command("webhooks", "rotate").stdout.strip())
            show(told[-1])
        wait_until_settled(found, plan, deadline)
        more: dict[str, Any] = {"rotations": len(told)}
        return report("rotation", found, plan, time.monotonic() - began, more)


def _is_sweeping(found: Production) -> bool:
    return any(run["status"] not in ENDED for run in found.ui.runs("reconcile_jobs"))


def _launch_all(found: Production, plan: Plan) -> None:
    found.rain()
    for day in plan.days:
        found.begin(day, plan)


def _expect_no_news_by(ended: Report, *channels: Channel) -> None:
    first = ended.figures["news_first_by_channel"]
    if any(first[str(channel)] for channel in channels):
        raise DrillFailed(f"news came by a channel that was to be silent: {first}")
