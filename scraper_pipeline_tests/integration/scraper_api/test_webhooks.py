"""Webhooks are made once, their secrets stay unseen, and their log is read page by page."""

import gzip
import logging
import traceback
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from scraper_pipeline.scraper_api import (
    InvalidRequest,
    NetworkError,
    PaymentRequired,
    ScraperClient,
    ScraperError,
    ServerError,
    Throttled,
    Unauthorized,
    UnexpectedStatus,
    UnreadableAnswer,
    WebhookNotFound,
    WebhooksNotOffered,
)
from scraper_pipeline_tests.integration.scraper_api.conftest import API_KEY, FakeClock
from scraper_pipeline_tests.integration.scraper_api.scripted_server import (
    Reply,
    ScriptedServer,
    answer,
    cut,
    wire,
)

HOOK = "https://example.com/webhooks/geonode"
SECRET = "whsec_b3Blbi1zZXNhbWU="
ROTATED = {"secret": SECRET}
THROTTLED = {"code": "RATE_LIMITED", "message": "slow down", "retryable": True}
NO_CONTENT = wire(b"HTTP/1.1 204 No Content\r\n\r\n")

Ask = Callable[[ScraperClient], Awaitable[object]]


def webhook(number: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"w-{number}",
        "url": HOOK,
        "description": None,
        "is_active": True,
        "event_type": "extract_completed",
        "created_at": "2026-05-27T08:16:09Z",
        "updated_at": "2026-05-27T08:16:09.5Z",
        **fields,
    }


CREATED = webhook(secret=SECRET)


def pages(*listed: list[dict[str, Any]], count: object = None) -> list[Reply]:
    return [
        answer(200, {"items": items, "page": number, "page_size": 100, "page_count": count or len(listed)})
        for number, items in enumerate(listed, 1)
    ]


async def create(client: ScraperClient) -> object:
    return await client.create_webhook(HOOK, "extract_completed")


async def rotate(client: ScraperClient) -> object:
    return await client.rotate_webhook_secret("w-1")


COLLECTION: dict[str, Ask] = {"create": create, "list": lambda client: client.list_webhooks()}
ONE: dict[str, Ask] = {
    "get": lambda client: client.get_webhook("w-1"),
    "update": lambda client: client.update_webhook("w-1", is_active=False),
    "delete": lambda client: client.delete_webhook("w-1"),
    "rotate": rotate,
    "deliveries": lambda client: client.list_deliveries("w-1"),
}
ASK = COLLECTION | ONE
IDEMPOTENT: dict[str, tuple[Ask, Reply]] = {
    "list": (ASK["list"], answer(200, {"items": [], "page_count": 0})),
    "get": (ASK["get"], answer(200, webhook())),
    "update": (ASK["update"], answer(200, webhook())),
    "delete": (ASK["delete"], NO_CONTENT),
    "deliveries": (ASK["deliveries"], answer(200, {"items": []})),
}
ONCE: dict[str, tuple[Ask, Reply]] = {
    "create": (create, answer(201, CREATED)),
    "rotate": (rotate, answer(200, ROTATED)),
}


async def test_creating_a_webhook_gives_its_secret(service: ScriptedServer, client: ScraperClient) -> None:
    service.script(answer(201, CREATED))

    created = await client.create_webhook(HOOK, "extract_completed", "of the tests")

    (request,) = service.requests
    assert (request.method, request.target) == ("POST", "/v1/webhooks")
    assert request.headers["x-api-key"] == API_KEY
    assert request.json == {"url": HOOK, "event_type": "extract_completed", "description": "of the tests"}
    assert (created.webhook_id, created.url, created.event_type) == ("w-1", HOOK, "extract_completed")
    assert created.secret.get_secret_value() == SECRET
    assert created.updated_at == datetime(2026, 5, 27, 8, 16, 9, 500_000, tzinfo=UTC)


async def test_rotating_gives_the_new_secret(service: ScriptedServer, client: ScraperClient) -> None:
    service.script(answer(200, ROTATED))

    secret = await client.rotate_webhook_secret("w-1")

    assert service.calls == ["POST /v1/webhooks/w-1/rotate-secret"]
    assert secret.get_secret_value() == SECRET


LEAVES_OPEN: dict[str, tuple[Reply, type[ScraperError]]] = {
    "cut before the answer": (cut(), NetworkError),
    "cut in the body": (wire(b"HTTP/1.1 201 x\r\nContent-Length: 99\r\n\r\n{", cut=True), NetworkError),
    "gzip cut short": (
        answer(201, gzip.compress(b"{}" * 99)[:-9], ("Content-Encoding", "gzip")),
        NetworkError,
    ),
    "500": (answer(500, {"code": "INTERNAL_ERROR", "message": "", "retryable": True}), ServerError),
    "503 with Retry-After": (answer(503, None, ("Retry-After", "1")), ServerError),
    "408 of a proxy": (answer(408, b""), ServerError),
    "2xx that is no JSON": (answer(201, b"<html>"), UnreadableAnswer),
    "2xx without a secret": (answer(201, webhook()), UnreadableAnswer),
    "2xx with a damaged secret": (answer(201, {**CREATED, "secret": "\ud800" + SECRET}), UnreadableAnswer),
    "204": (NO_CONTENT, UnreadableAnswer),
    "a redirect": (answer(307, None, ("Location", "/elsewhere")), UnexpectedStatus),
}


@pytest.mark.parametrize(("reply", "error"), LEAVES_OPEN.values(), ids=LEAVES_OPEN.keys())
@pytest.mark.parametrize(("ask", "good"), ONCE.values(), ids=ONCE.keys())
async def test_what_leaves_open_whether_it_happened_is_not_repeated(
    service: ScriptedServer,
    client: ScraperClient,
    clock: FakeClock,
    ask: Ask,
    good: Reply,
    reply: Reply,
    error: type[ScraperError],
) -> None:
    service.script(reply, good)

    with pytest.raises(error) as raised:
        await ask(client)

    assert not raised.value.proves_no_job
    assert len(service.requests) == 1
    assert clock.slept == []


@pytest.mark.parametrize(("ask", "good"), ONCE.values(), ids=ONCE.keys())
async def test_throttling_proves_that_nothing_happened_and_is_waited_for(
    service: ScriptedServer, client: ScraperClient, clock: FakeClock, ask: Ask, good: Reply
) -> None:
    service.script(answer(429, THROTTLED, ("Retry-After", "7")), good)

    await ask(client)

    assert len(service.requests) == 2
    assert clock.slept[0] == 7.0


@pytest.mark.parametrize(
    "reply", [cut(), answer(502, b""), answer(429, THROTTLED)], ids=["cut", "502", "429"]
)
@pytest.mark.parametrize(("ask", "good"), IDEMPOTENT.values(), ids=IDEMPOTENT.keys())
async def test_what_may_be_done_twice_is_repeated(
    service: ScriptedServer, client: ScraperClient, ask: Ask, good: Reply, reply: Reply
) -> None:
    service.script(reply, reply, good)

    await ask(client)

    assert len(service.requests) == 3


@pytest.mark.parametrize("status", [404, 405, 501])
@pytest.mark.parametrize("ask", COLLECTION.values(), ids=COLLECTION.keys())
@pytest.mark.parametrize(
    "body", [b"<html>", {"code": "X", "message": "no", "retryable": True}], ids=["HTML", "JSON"]
)
async def test_a_service_without_webhooks_is_told_apart_and_asked_once(
    service: ScriptedServer, client: ScraperClient, ask: Ask, status: int, body: object
) -> None:
    service.script(answer(status, body), repeat=True)

    with pytest.raises(WebhooksNotOffered, match="does not offer webhooks yet; polling goes on") as raised:
        await ask(client)

    assert (raised.value.scope, raised.value.status, raised.value.proves_no_job) == ("service", status, True)
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, WebhookNotFound), (410, WebhookNotFound), (405, WebhooksNotOffered), (501, WebhooksNotOffered)],
)
@pytest.mark.parametrize("ask", ONE.values(), ids=ONE.keys())
async def test_a_webhook_that_is_not_there_is_told_apart_from_webhooks_that_are_not_offered(
    service: ScriptedServer, client: ScraperClient, ask: Ask, status: int, error: type[ScraperError]
) -> None:
    service.script(answer(status, {"detail": "no"}), repeat=True)

    with pytest.raises(error, match="w-1: the service answered") as raised:
        await ask(client)

    assert type(raised.value) is error
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, {"code": "WEBHOOK_LIMIT", "message": "at most 10", "retryable": False}, InvalidRequest),
        (409, {"error": {"code": "WEBHOOK_LIMIT", "message": "at most 10"}}, InvalidRequest),
        (422, {"detail": [{"loc": ["body", "url"], "msg": "no https"}]}, InvalidRequest),
        (422, {"error": {"code": "INVALID_URL", "message": "no https"}}, InvalidRequest),
        (401, {"detail": "no"}, Unauthorized),
        (402, {"detail": "no"}, PaymentRequired),
    ],
)
async def test_a_refusal_is_final_and_speaks_of_the_webhook(
    service: ScriptedServer, client: ScraperClient, status: int, body: object, error: type[ScraperError]
) -> None:
    service.script(answer(status, body), answer(201, CREATED))

    with pytest.raises(error) as raised:
        await create(client)

    assert type(raised.value) is error
    assert raised.value.proves_no_job
    assert ("correct the webhook's URL" in str(raised.value)) is (error is InvalidRequest)
    assert len(service.requests) == 1


async def test_endless_throttling_ends_as_such(service: ScriptedServer, client: ScraperClient) -> None:
    service.script(answer(429, THROTTLED, ("Retry-After", "100")), repeat=True)

    with pytest.raises(Throttled):
        await create(client)


async def test_all_pages_of_webhooks_are_listed_once_each(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(*pages([webhook(1), webhook(2)], [], [webhook(2, is_active=False), webhook(3)]))

    listed = await client.list_webhooks()

    assert [(one.webhook_id, one.is_active) for one in listed] == [
        ("w-1", True),
        ("w-2", False),
        ("w-3", True),
    ]
    assert [request.query for request in service.requests] == [
        {"page": str(number), "page_size": "100"} for number in (1, 2, 3)
    ]


async def test_a_count_that_grows_on_the_way_is_followed(
    service: ScriptedServer, client: ScraperClient
) -> None:
    first, _ = pages([webhook(1)], [])
    service.script(first, *pages([], [], [webhook(3)])[1:])

    assert [one.webhook_id for one in await client.list_webhooks()] == ["w-1", "w-3"]


async def test_without_a_count_listing_ends_at_the_page_with_nothing_new(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(200, {"webhooks": [webhook(1)]}), repeat=True)

    assert [one.webhook_id for one in await client.list_webhooks()] == ["w-1"]
    assert len(service.requests) == 2


async def test_a_count_beyond_all_reason_does_not_keep_the_client_busy(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(*pages([webhook()], count=10**9), repeat=True)

    with pytest.raises(UnreadableAnswer, match="list_webhooks: 20 pages"):
        await client.list_webhooks()

    assert len(service.requests) == 20


@pytest.mark.parametrize(
    "second",
    [answer(500, None), answer(200, {"items": [webhook(2), {"url": HOOK}]})],
    ids=["500", "a line without an id"],
)
async def test_a_page_that_cannot_be_had_is_no_short_list(
    service: ScriptedServer, client: ScraperClient, second: Reply
) -> None:
    first, _ = pages([webhook(1)], [])
    service.script(first, second, repeat=True)

    with pytest.raises((ServerError, UnreadableAnswer)):
        await client.list_webhooks()


async def test_the_pages_of_one_listing_share_its_budget(
    service: ScriptedServer, client: ScraperClient, clock: FakeClock
) -> None:
    throttled = answer(429, THROTTLED, ("Retry-After", "20"))
    first, second = pages([webhook(1)], [webhook(2)])
    service.script(throttled, first, throttled, second)
    began = clock.now

    with pytest.raises(Throttled):
        await client.list_webhooks(budget=30)

    assert clock.now - began <= 30


async def test_a_webhook_is_read_and_the_answer_about_another_is_not_taken_for_it(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(200, webhook()), answer(200, webhook(2)), repeat=True)

    assert (await client.get_webhook("W-1")).url == HOOK
    with pytest.raises(UnreadableAnswer, match="another webhook"):
        await client.get_webhook("w-1")


async def test_an_update_changes_only_what_is_given(service: ScriptedServer, client: ScraperClient) -> None:
    service.script(answer(200, webhook(is_active=False)), repeat=True)

    changed = await client.update_webhook("w-1", is_active=False)
    await client.update_webhook("w-1", url="https://b/", description="")

    assert not changed.is_active
    assert service.calls == ["PATCH /v1/webhooks/w-1"] * 2
    assert [request.json for request in service.requests] == [
        {"is_active": False},
        {"url": "https://b/", "description": ""},
    ]
    assert service.requests[0].headers["content-type"] == "application/json"
    with pytest.raises(ValueError, match="nothing to change"):
        await client.update_webhook("w-1")


@pytest.mark.parametrize(
    "reply",
    [
        NO_CONTENT,
        answer(200, b"gone"),
        answer(202, webhook()),
        answer(200, b"no gzip", ("Content-Encoding", "gzip")),
    ],
    ids=["204", "no JSON", "JSON", "no gzip"],
)
async def test_a_deletion_is_done_whatever_the_body_says(
    service: ScriptedServer, client: ScraperClient, reply: Reply
) -> None:
    service.script(reply)

    await client.delete_webhook("w-1")

    assert service.calls == ["DELETE /v1/webhooks/w-1"]


async def test_the_log_of_deliveries_is_read_page_by_page(
    service: ScriptedServer, client: ScraperClient
) -> None:
    refused = {
        "id": "d-1",
        "event_type": "extract_completed",
        "job_id": "j-1",
        "attempt_number": 3,
        "status": "abandoned",
        "http_status": 401,
        "delivered_at": None,
        "created_at": "2026-05-27T08:16:09Z",
    }
    body = {"items": [refused, {**refused, "id": None}], "page": 2, "page_size": 50, "page_count": 3}
    service.script(answer(200, body, ("Date", "Wed, 27 May 2026 08:21:09 GMT")))

    listing = await client.list_deliveries("w-1", page=2, page_size=50, status="abandoned")

    assert service.calls == ["GET /v1/webhooks/w-1/deliveries"]
    assert service.requests[0].query == {"page": "2", "page_size": "50", "status": "abandoned"}
    (attempt,) = listing.items
    assert (attempt.delivery_id, attempt.job_id, attempt.attempt_number) == ("d-1", "j-1", 3)
    assert (attempt.status, attempt.http_status, attempt.is_acknowledged) == ("abandoned", 401, False)
    assert (attempt.delivered_at, attempt.created_at) == (None, datetime(2026, 5, 27, 8, 16, 9, tzinfo=UTC))
    assert (listing.page, listing.page_size, listing.page_count, listing.unreadable) == (2, 50, 3, 1)
    assert listing.service_time == datetime(2026, 5, 27, 8, 21, 9, tzinfo=UTC)


async def test_a_log_without_a_list_is_not_taken_for_an_empty_one(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(200, {"page": 1, "page_count": 0}), repeat=True)

    with pytest.raises(UnreadableAnswer):
        await client.list_deliveries("w-1")


async def test_a_webhook_id_stays_one_segment_of_the_path(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(200, ROTATED))

    await client.rotate_webhook_secret("../a?b")

    assert service.requests[0].target == "/v1/webhooks/..%2Fa%3Fb/rotate-secret"
    for nonsense in ("", ".", ".."):
        with pytest.raises(ValueError, match="no webhook id"):
            await client.delete_webhook(nonsense)


async def test_no_secret_is_in_a_log_or_an_error(
    service: ScriptedServer, client: ScraperClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shown = []
    for body in ({**CREATED, "id": None}, [CREATED], SECRET, SECRET.encode()):
        service.script(answer(201, body))
        with pytest.raises(UnreadableAnswer) as raised:
            await create(client)
        shown += traceback.format_exception(raised.value, chain=True)
    service.script(answer(201, CREATED), answer(200, ROTATED))
    shown += [repr(await create(client)), repr(await rotate(client))]

    assert SECRET not in "".join(shown) + caplog.text
