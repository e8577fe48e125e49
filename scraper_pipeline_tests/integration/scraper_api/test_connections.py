"""What the client does to the network: many requests at once, certificates, proxies, and no secret anywhere."""

import asyncio
import logging
import ssl
import traceback
from pathlib import Path

import pytest
import trustme

from scraper_pipeline.scraper_api import NetworkError, ScraperClient, ScraperError
from scraper_pipeline_tests.integration.scraper_api.conftest import API_KEY, Connect, FakeClock
from scraper_pipeline_tests.integration.scraper_api.scripted_server import ScriptedServer, answer, cut, wire

JOB = {
    "job_id": "j-1",
    "status": "completed",
    "data": {"markdown": "secret page"},
    "metadata": {"title": "secret page"},
}


async def test_a_hundred_requests_at_once_are_all_answered(service: ScriptedServer) -> None:
    service.script(answer(200, {**JOB, "data": {"markdown": "x" * 5000}}), repeat=True)
    async with ScraperClient(host=service.url, api_key=API_KEY, connections=100) as client:
        jobs = await asyncio.gather(*(client.get_job("j-1") for _ in range(400)))

    assert len(jobs) == 400
    assert client.requests_made == {"get_job": 400}


async def test_no_more_requests_than_connections_are_under_way(service: ScriptedServer) -> None:
    service.script(answer(200, JOB), repeat=True)
    async with ScraperClient(host=service.url, api_key=API_KEY, connections=7) as client:
        await asyncio.gather(*(client.get_job("j-1") for _ in range(60)))

    assert service.most_at_once <= 7


async def test_a_certificate_that_does_not_verify_fails_fast(connect: Connect, clock: FakeClock) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    async with ScriptedServer(tls=tls) as imposter:
        client = connect(host=imposter.url)

        with pytest.raises(NetworkError, match="certificate") as raised:
            await client.get_job("j-1")
        await client.aclose()

    assert raised.value.is_final
    assert raised.value.proves_no_job
    assert imposter.requests == []
    assert client.requests_made == {"get_job": 1}
    assert clock.slept == []


async def test_an_authority_of_ones_own_is_trusted_through_the_environment(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    async with ScriptedServer(tls=tls) as service:
        service.script(answer(200, JOB))
        client = connect(host=service.url)

        assert (await client.get_job("j-1")).is_terminal
        await client.aclose()


async def test_the_proxy_of_the_environment_is_used_but_never_for_loopback(
    service: ScriptedServer, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedServer() as proxy:
        for name in ("no_proxy", "NO_PROXY", "http_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        proxy.script(answer(200, JOB))
        service.script(answer(200, JOB))

        await connect().get_job("j-1")
        assert (len(service.requests), len(proxy.requests)) == (1, 0)
        await connect(host="http://scraper.invalid").get_job("j-1")

    assert [request.target for request in proxy.requests] == ["http://scraper.invalid/v1/extract/j-1"]


async def test_no_cookie_is_kept(service: ScriptedServer, client: ScraperClient) -> None:
    service.script(answer(200, JOB, ("Set-Cookie", "a=b; Path=/")), answer(200, JOB))
    await client.get_job("j-1")
    await client.get_job("j-1")

    assert "cookie" not in service.requests[1].headers


async def test_neither_the_key_nor_a_page_is_in_any_log_repr_or_error(
    service: ScriptedServer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    refusal = {"code": "UNAUTHORIZED", "message": f"unknown key {API_KEY}", "retryable": False}
    replies = [
        answer(401, refusal),
        answer(401, {"detail": f"unknown key {API_KEY}"}),
        answer(200, {**JOB, "job_id": ""}),
        answer(200, b"secret page"),
        wire(b"HTTP/1.1 200 x\r\nContent-Length: 999\r\n\r\nsecret page", cut=True),
        cut(),
    ]
    client = connect()
    seen = [repr(client)]
    for reply in replies:
        service.script(reply, repeat=True)
        with pytest.raises(ScraperError) as raised:
            await client.get_job("j-1")
        seen += [repr(raised.value), *traceback.format_exception(raised.value)]
    service.script(answer(200, JOB))
    seen.append(repr(await client.get_job("j-1")))

    everything = "\n".join([*seen, caplog.text])
    assert API_KEY not in everything
    assert "secret page" not in everything


@pytest.mark.parametrize(
    "host", ["", "scraper.geonode.io", "ftp://a", "https://", "https://u:p@a", "http://a:b", "https://a?x=1"]
)
def test_a_host_that_is_none_is_refused_at_once(host: str) -> None:
    with pytest.raises(ValueError, match="takes a form like"):
        ScraperClient(host=host, api_key=API_KEY)


@pytest.mark.parametrize("key", ["", " ", "a\nb", "a\r\nX-Evil: 1", "schlüssel", "a "])
def test_a_key_that_no_header_can_carry_is_refused_at_once_and_not_shown(key: str) -> None:
    with pytest.raises(ValueError, match="API key") as raised:
        ScraperClient(host="http://127.0.0.1:9", api_key=key)

    assert str(raised.value) == "the API key is empty or holds characters that no header can carry"
