"""What the check of the service says of the key, the clock, and a service that is not well."""

import re
import socket
from collections.abc import Iterator

import pytest

from scraper_pipeline.checkup.findings import Finding
from scraper_pipeline.checkup.service import check_service
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.scraper_api import RetryPolicy, ScraperClient
from scraper_pipeline_tests.integration.scraper_api.scripted_server import ScriptedServer, answer

IMPATIENT = RetryPolicy(first_wait=0.01, longest_wait=0.02, request_seconds=10.0, connect_seconds=10.0)


@pytest.fixture(scope="module")
def server() -> Iterator[SandboxServer]:
    with SandboxServer(SandboxConfig(min_delay=0, max_delay=0)) as server:
        yield server


@pytest.fixture
def sandbox(server: SandboxServer) -> Iterator[SandboxServer]:
    yield server
    server.clear_faults()


async def _check(host: str) -> dict[str, Finding]:
    async with ScraperClient(host=host, api_key="k-5c0ffee5ecre7", policy=IMPATIENT) as client:
        found = await check_service(client, clock_skew=10.0)
    assert "5c0ffee5ecre7" not in repr(found)
    return {one.subject: one for one in found}


async def test_all_is_well(sandbox: SandboxServer) -> None:
    found = await _check(sandbox.url)
    assert {name: str(one.grade) for name, one in found.items()} == {
        "service": "ok",
        "key": "ok",
        "clock": "ok",
    }
    assert "0 of the account's 100 places are taken" in found["key"].said


@pytest.mark.parametrize(
    ("faults", "said", "advice"),
    [
        ({"unauthorized": True}, "(401)", "GEONODE_SCRAPER_API_KEY"),
        ({"forbidden": True}, "(403)", "dashboard"),
    ],
)
async def test_refusals_of_the_key_are_told_apart(
    faults: dict[str, bool], said: str, advice: str, sandbox: SandboxServer
) -> None:
    sandbox.set_faults(**faults)
    found = await _check(sandbox.url)
    assert "clock" not in found
    assert found["key"].is_problem
    assert said in found["key"].said
    assert advice in found["key"].advice


@pytest.mark.parametrize(("shift", "said"), [(60, "ahead of"), (-60, "behind")])
async def test_a_clock_that_is_off_is_a_problem_with_its_distance(
    shift: float, said: str, sandbox: SandboxServer
) -> None:
    sandbox.set_faults(clock_shift=shift)
    clock = (await _check(sandbox.url))["clock"]
    assert clock.is_problem
    [seconds] = re.findall(rf"(\d+) s {said}", clock.said)
    assert 50 <= int(seconds) <= 60
    assert "SCRAPER_CLOCK_SKEW_SECONDS=" in clock.advice


async def test_a_service_that_is_not_well_says_so(sandbox: SandboxServer) -> None:
    sandbox.set_faults(unhealthy={"status": "degraded"})
    found = await _check(sandbox.url)
    assert "degraded" in found["service"].said
    assert str(found["key"].grade) == "ok"


async def test_a_host_that_nobody_listens_on_is_named_once() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        found = await _check(f"http://127.0.0.1:{nobody.getsockname()[1]}")
    assert list(found) == ["service"]
    assert found["service"].is_problem
    assert "GEONODE_SCRAPER_HOST" in found["service"].advice


async def test_an_empty_balance_a_throttle_and_an_undated_answer_are_told_from_a_wrong_key() -> None:
    well, usage = answer(200, {"status": "ok"}), {"work_concurrency_in_use": 1, "work_concurrency_limit": 9}
    async with ScriptedServer() as service:
        service.script(well, answer(402, {"code": "PAYMENT_REQUIRED", "message": "empty"}))
        key = (await _check(service.url))["key"]
        assert (key.is_problem, "(402)" in key.said) == (True, True)
        service.script(
            well, *[answer(429, {"code": "RATE_LIMITED"}, ("Retry-After", "60"))] * 20, repeat=True
        )
        key = (await _check(service.url))["key"]
        assert (str(key.grade), "throttles" in key.said) == ("warning", True)
        service.script(well, answer(200, usage), answer(200, {"jobs": []}))
        clock = (await _check(service.url))["clock"]
        assert (str(clock.grade), "no date" in clock.said) == ("warning", True)
