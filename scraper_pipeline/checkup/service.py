"""Whether the service answers, takes the key, and has a clock near ours. Nothing of this is paid."""

from datetime import timedelta

from scraper_pipeline.checkup.findings import Finding, Subject
from scraper_pipeline.lifecycle.service_clock import ServiceClock
from scraper_pipeline.scraper_api import (
    NetworkError,
    PaymentRequired,
    ScraperClient,
    ScraperError,
    Throttled,
    Unauthorized,
)

_SERVICE, _KEY, _CLOCK = Subject("service"), Subject("key"), Subject("clock")
_SECONDS = 10.0


async def check_service(client: ScraperClient, clock_skew: float) -> list[Finding]:
    """What the service says of itself, of the key, and by its ``Date`` header of the time; the skew is in seconds."""
    try:
        health = await client.get_health(budget=_SECONDS)
    except NetworkError as error:
        return [
            _SERVICE.problem(
                f"{error}.",
                "Check GEONODE_SCRAPER_HOST, this machine's network, and its proxy if it has one.",
            )
        ]
    except ScraperError as error:
        found = [_SERVICE.warning(f"{error}.", "Go by what is said of the key.")]
    else:
        if health.is_ok:
            found = [_SERVICE.ok("It answers, and says that it is well.")]
        else:
            found = [
                _SERVICE.warning(
                    f"It says that it is {health.status}.", "Wait: what is planned stays planned."
                )
            ]
    key = await check_key(client)
    return [*found, key, *([] if key.is_problem else await check_clock(client, clock_skew))]


async def check_key(client: ScraperClient) -> Finding:
    """Whether the service accepts the key, and if not, why."""
    try:
        usage = await client.get_concurrency(budget=_SECONDS)
    except Unauthorized as error:
        if error.status == 403:
            return _KEY.problem(
                "The key is known and not allowed to do this (403).",
                "See the key and the account in the dashboard.",
            )
        return _KEY.problem(
            "The service does not know the key (401).",
            "Correct GEONODE_SCRAPER_API_KEY: the dashboard shows the key.",
        )
    except PaymentRequired:
        return _KEY.problem(
            "The account's balance is used up (402).", "Top it up: what is planned waits for it."
        )
    except Throttled:
        return _KEY.warning(
            "The service throttles, and has not said whether it takes the key.", "Try again later."
        )
    except ScraperError as error:
        return _KEY.problem(f"{error}.", "Try again; if it stays, check GEONODE_SCRAPER_HOST.")
    return _KEY.ok(f"The key is accepted; {usage.in_use} of the account's {usage.limit} places are taken.")


async def check_clock(client: ScraperClient, clock_skew: float) -> list[Finding]:
    """How far the service's clock is off: a lost answer is looked up by the times at which jobs were made."""
    try:
        listing = await client.list_jobs(page_size=1, budget=_SECONDS)
    except ScraperError as error:
        return [_SERVICE.problem(f"{error}.", "Polling and the sweep need this call: try again later.")]
    if listing.service_time is None:
        return [
            _CLOCK.warning("The service's answers carry no date.", "Keep this machine's clock set by NTP.")
        ]
    clock = ServiceClock()
    clock.learn(listing)
    return [judge_clock(clock, clock_skew)]


def judge_clock(clock: ServiceClock, clock_skew: float) -> Finding:
    """Whether the two clocks certainly differ by more than the settings allow for."""
    # Between the two bounds anything may be true; what is certain is the distance from zero to the nearer one.
    ahead = max(clock.least_ahead, timedelta()) or min(clock.most_ahead, timedelta())
    seconds = abs(ahead.total_seconds())
    if seconds > clock_skew:
        return _CLOCK.problem(
            f"The service's clock is {seconds:.0f} s {'ahead of' if ahead > timedelta() else 'behind'} this machine's, "
            f"and SCRAPER_CLOCK_SKEW_SECONDS allows for {clock_skew:g}.",
            f"Set this machine's clock by NTP; if that doesn't help, set SCRAPER_CLOCK_SKEW_SECONDS={seconds + 5:.0f}.",
        )
    return _CLOCK.ok(
        f"The two clocks agree within what SCRAPER_CLOCK_SKEW_SECONDS allows for ({clock_skew:g} s)."
    )
