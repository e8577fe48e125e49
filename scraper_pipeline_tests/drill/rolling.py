"""Days with faults, and meanwhile a rolling restart of every process; the database goes away twice."""

import time
from pathlib import Path

from scraper_pipeline_tests.drill.ending import Report, report, wait_until_settled
from scraper_pipeline_tests.drill.plan import Plan
from scraper_pipeline_tests.drill.production import Production, Show, production

_TARGETS_A_SECOND = {"auto": 250, "batch": 250, "extract": 40}
"""By which strikes are spread over the work: what two busy cores get done."""


def run(plan: Plan, folder: Path, deadline: float, show: Show) -> Report:
    with production(folder, plan, show, settings={"SCRAPER_SUBMISSION_MODE": plan.mode}) as found:
        began = time.monotonic()
        found.rain(with_endless_jobs=plan.mode == "extract")
        carry_out(found, plan)
        wait_until_settled(found, plan, deadline)
        return report("rolling", found, plan, time.monotonic() - began, {"mode": plan.mode})


def carry_out(found: Production, plan: Plan) -> None:
    """Launch the days, and make the strikes evenly over the time that they take."""
    pause = plan.targets / _TARGETS_A_SECOND[plan.mode] / len(plan.strikes)
    left = list(plan.days)
    for number, strike in enumerate(plan.strikes):
        while left and plan.day_begins(left[0]) <= number:
            found.begin(left.pop(0), plan)
        found.tend_for(pause)
        found.strike(strike)
    for day in left:
        found.begin(day, plan)
