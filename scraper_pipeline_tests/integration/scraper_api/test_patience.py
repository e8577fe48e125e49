"""How long the client waits: a spell of throttling takes nothing from the patience with what comes after it."""

import pytest

from scraper_pipeline.scraper_api import Budget, RetryPolicy, ScraperClient
from scraper_pipeline_tests.integration.scraper_api.conftest import Connect, FakeClock
from scraper_pipeline_tests.integration.scraper_api.scripted_server import ScriptedServer, answer, cut

JOB = {"job_id": "j-1", "status": "processing"}
THROTTLED = {"code": "RATE_LIMITED", "message": "slow down", "retryable": True}


async def test_a_connection_that_is_reset_after_fifteen_minutes_of_throttling_has_all_its_retries_left(
    service: ScriptedServer, connect: Connect, clock: FakeClock
) -> None:
    policy = RetryPolicy(throttling=Budget(100, 1000), network=Budget(2, 60), total_seconds=2000)
    # aiohttp itself repeats a read once where a kept connection was cut: two in a row reach us as one.
    service.script(
        *[answer(429, THROTTLED, ("Retry-After", "60"))] * 15, *[cut()] * 3, answer(200, JOB), repeat=True
    )
    began = clock.now

    assert (await connect(policy=policy).get_job("j-1")).status == "processing"

    assert clock.now - began >= 15 * 60


@pytest.mark.parametrize(
    ("values", "waited"),
    [
        (["7"], 7.0),
        (["Fri, 31 Dec 9999 23:59:59 GMT"], 120.0),
        (["9999999999"], 120.0),
        (["Wed, 21 Oct 2015 07:28:00 GMT"], 1.0),
        (["0"], 1.0),
        (["-5"], 1.0),
        (["1.5e3"], 1.0),
        (["90junk"], 1.0),
        ([""], 1.0),
        (["50", "70"], 1.0),
        (["50, 70"], 1.0),
        ([], 1.0),
    ],
)
async def test_retry_after_is_obeyed_over_the_wire_and_what_is_none_is_the_clients_own_back_off(
    service: ScriptedServer, client: ScraperClient, clock: FakeClock, values: list[str], waited: float
) -> None:
    headers = [("Retry-After", value) for value in values]
    service.script(answer(429, THROTTLED, *headers), answer(200, JOB))

    await client.get_job("j-1")

    assert clock.slept[0] == pytest.approx(waited)
    assert sum(clock.slept) <= waited + 1.1, "the pace is a request a second, and that is all"
