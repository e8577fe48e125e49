"""The contract's webhooks over HTTP: the calls, the deliveries to a real receiver, and the log of them."""

import base64
import hmac
import json
import time
from datetime import datetime
from hashlib import sha256

import httpx
import pytest
from standardwebhooks import Webhook as StandardWebhook

from scraper_pipeline_tests.integration.sandbox.conftest import Caller, calling
from scraper_pipeline_tests.integration.sandbox.receiver import Received, Receiver


def hex_mac(received: Received, secret: str) -> str:
    return hmac.new(secret.encode(), received.body, sha256).hexdigest()


def test_a_delivery_is_signed_over_its_body_and_carries_the_whole_answer(caller: Caller, receiver: Receiver):
    webhook = caller.webhook(receiver.url)
    job_id = caller.finished("pages/3", formats=["markdown", "html"])
    (received,) = receiver.wait(1)
    headers, body = received.headers, received.json
    assert headers["X-Webhook-Signature"] == hex_mac(received, webhook["secret"])
    assert headers["Content-Type"] == "application/json"
    assert headers["User-Agent"] == "scraper-api-webhook/1.0"
    assert headers["X-Webhook-Event"] == body["event"] == "extract_completed"
    assert headers["X-Webhook-Delivery-Id"] == body["delivery_id"]
    assert body["webhook_id"] == webhook["id"]
    assert datetime.fromisoformat(body["timestamp"]).utcoffset() is not None
    assert body["data"] == caller.job(job_id).json()
    assert list(body) == ["event", "webhook_id", "delivery_id", "timestamp", "data"]
    (attempt,) = caller.settled(webhook["id"], 1)
    assert attempt["id"] == body["delivery_id"]
    told = (attempt["job_id"], attempt["attempt_number"], attempt["status"], attempt["http_status"])
    assert told == (job_id, 1, "success", 200)
    assert attempt["created_at"] <= attempt["delivered_at"]
    truth = caller.deliveries(job_id)
    assert (truth["attempts"], truth["acknowledged"], truth["acknowledged_at"]) == (
        1,
        1,
        attempt["delivered_at"],
    )


@pytest.mark.parametrize(
    ("path", "status"), [("broken/1", "failed"), ("cancelled/1", "cancelled"), ("large", "completed")]
)
def test_every_end_of_an_asynchronous_job_is_told(caller: Caller, receiver: Receiver, path: str, status: str):
    webhook = caller.webhook(receiver.url)
    job_id = caller.finished(path)
    (received,) = receiver.wait(1)
    assert (received.job_id, received.json["data"]["status"]) == (job_id, status)
    assert received.headers["X-Webhook-Signature"] == hex_mac(received, webhook["secret"])
    assert received.headers["Content-Length"] == str(len(received.body))


def test_a_synchronous_extraction_and_other_event_types_are_not_delivered(caller: Caller, receiver: Receiver):
    caller.webhook(receiver.url, "batch_completed")
    caller.webhook(receiver.url, "crawl_completed")
    caller.finished("pages/1")
    caller.webhook(receiver.url)
    assert caller.post("pages/1", mode="sync").status_code == 200
    receiver.stays_at(0)


def test_every_webhook_of_the_type_gets_the_event_under_its_own_secret(caller: Caller, receiver: Receiver):
    webhooks = {webhook["id"]: webhook for webhook in (caller.webhook(receiver.url) for _ in range(2))}
    job_id = caller.finished("pages/1")
    received = receiver.wait(2)
    assert {one.json["webhook_id"] for one in received} == set(webhooks)
    for one in received:
        secret = webhooks[one.json["webhook_id"]]["secret"]
        assert one.headers["X-Webhook-Signature"] == hex_mac(one, secret)
    for webhook_id in webhooks:
        caller.settled(webhook_id, 1)
    assert caller.deliveries(job_id)["attempts"] == 2


def test_a_refused_delivery_is_repeated_under_new_ids_until_it_is_accepted(
    caller: Caller, receiver: Receiver
):
    receiver.statuses = [503, 302]
    webhook = caller.webhook(receiver.url)
    job_id = caller.finished("pages/1")
    received = receiver.wait(3)
    receiver.stays_at(3)
    attempts = caller.settled(webhook["id"], 3)
    assert [(one["attempt_number"], one["status"], one["http_status"]) for one in attempts] == [
        (1, "failed", 503),
        (2, "failed", 302),
        (3, "success", 200),
    ]
    ids = [one.headers["X-Webhook-Delivery-Id"] for one in received]
    assert ids == [one["id"] for one in attempts]
    assert len(set(ids)) == 3
    assert [one["delivered_at"] is None for one in attempts] == [True, True, False]
    assert received[1].at - received[0].at >= 0.04
    assert received[2].at - received[1].at >= 0.09
    truth = caller.deliveries(job_id)
    assert (truth["attempts"], truth["acknowledged"]) == (3, 1)


def test_a_delivery_that_nobody_accepts_is_abandoned_after_the_schedule(caller: Caller, receiver: Receiver):
    receiver.statuses = [401] * 9
    webhook = caller.webhook(receiver.url)
    job_id = caller.finished("pages/1")
    receiver.stays_at(3)
    attempts = caller.settled(webhook["id"], 3)
    assert [one["status"] for one in attempts] == ["failed", "failed", "abandoned"]
    assert {one["http_status"] for one in attempts} == {401}
    assert caller.deliveries(job_id)["acknowledged"] == 0


def test_a_receiver_that_does_not_answer_in_time_counts_as_failed():
    with Receiver() as receiver, calling(webhook_timeout=0.1, webhook_retry_schedule=[]) as caller:
        receiver.seconds = 0.4
        webhook = caller.webhook(receiver.url)
        job_id = caller.finished("pages/1")
        (attempt,) = caller.settled(webhook["id"], 1)
        assert (attempt["status"], attempt["http_status"]) == ("abandoned", None)
        assert caller.deliveries(job_id)["last_error"] == "No answer within 0.1 s"
        time.sleep(0.4)  # the receiver has its answer still to write


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://192.0.2.1/hook", "elsewhere"),
        ("http://[2001:db8::1]/hook", "elsewhere"),
        ("http://sandbox.invalid/hook", "elsewhere"),
        ("http://127.0.0.1:1/hook", "ClientConnectorError"),
    ],
)
def test_only_this_machine_is_delivered_to(url: str, said: str):
    with calling(webhook_retry_schedule=[]) as caller:
        webhook = caller.webhook(url)
        job_id = caller.finished("pages/1")
        (attempt,) = caller.settled(webhook["id"], 1)
        assert (attempt["status"], attempt["http_status"]) == ("abandoned", None)
        assert said in caller.deliveries(job_id)["last_error"]


def test_the_secret_before_a_rotation_is_void_at_once(caller: Caller, receiver: Receiver):
    receiver.statuses = [401]
    webhook = caller.webhook(receiver.url)
    fresh: list[str] = []

    def rotate(received: Received) -> None:
        if not fresh:
            fresh.append(
                httpx.post(
                    f"{caller.sandbox.url}/v1/webhooks/{webhook['id']}/rotate-secret",
                    headers={"X-Api-Key": "any"},
                    timeout=60,
                ).json()["secret"]
            )

    receiver.on_receipt = rotate
    caller.finished("pages/1")
    before, after = receiver.wait(2)
    assert fresh[0] != webhook["secret"]
    assert before.headers["X-Webhook-Signature"] == hex_mac(before, webhook["secret"])
    assert after.headers["X-Webhook-Signature"] == hex_mac(after, fresh[0])


@pytest.mark.parametrize("scheme", ["hex", "upper_hex", "sha256", "base64", "list", "spaced_list"])
def test_a_signature_comes_in_the_encoding_that_was_chosen(receiver: Receiver, scheme: str):
    with calling(webhook_signature=scheme, webhook_signature_header="X-Geonode-Signature") as caller:
        webhook = caller.webhook(receiver.url)
        fresh = caller.http.post(f"/v1/webhooks/{webhook['id']}/rotate-secret").json()["secret"]
        caller.finished("pages/1")
        (received,) = receiver.wait(1)
        old, new = hex_mac(received, webhook["secret"]), hex_mac(received, fresh)
        expected = {
            "hex": new,
            "upper_hex": new.upper(),
            "sha256": f"sha256={new}",
            "base64": base64.b64encode(bytes.fromhex(new)).decode(),
            "list": f"{old},{new}",
            "spaced_list": f"{old} {new}",
        }[scheme]
        assert received.headers["X-Geonode-Signature"] == expected
        assert "X-Webhook-Signature" not in received.headers


def test_the_standard_library_verifies_what_is_signed_by_the_standard(receiver: Receiver):
    with calling(webhook_signature="standard") as caller:
        receiver.statuses = [500]
        webhook = caller.webhook(receiver.url)
        caller.finished("pages/7")
        received = receiver.wait(2)
        for one in received:
            verified = StandardWebhook(webhook["secret"]).verify(one.body, dict(one.headers.items()))
            assert verified["event"] == "extract_completed"
        assert received[0].headers["webhook-id"] == received[1].headers["webhook-id"]


def test_the_older_body_names_the_job_at_its_top(receiver: Receiver):
    with calling(webhook_payload="guide") as caller:
        caller.webhook(receiver.url)
        job_id = caller.finished("pages/1")
        (received,) = receiver.wait(1)
        body = received.json
        assert (body["job_id"], body["event_type"], body["status"]) == (
            job_id,
            "extract_completed",
            "completed",
        )
        assert body["id"] == received.headers["X-Webhook-Delivery-Id"]
        assert "data" not in body


def test_a_webhook_that_is_switched_off_or_deleted_gets_nothing_more(caller: Caller, receiver: Receiver):
    receiver.statuses = [500] * 9
    off, deleted = caller.webhook(receiver.url), caller.webhook(receiver.url)
    caller.finished("pages/1")
    receiver.wait(2)
    assert caller.http.patch(f"/v1/webhooks/{off['id']}", json={"is_active": False}).status_code == 200
    assert caller.http.delete(f"/v1/webhooks/{deleted['id']}").status_code == 204
    count = len(receiver.received)
    caller.finished("pages/2")
    time.sleep(0.3)
    assert len(receiver.received) <= count + 2  # one each may have been on its way
    assert {one["status"] for one in caller.settled(off["id"], 2)} == {"failed", "abandoned"}
    assert caller.http.get(f"/v1/webhooks/{deleted['id']}/deliveries").status_code == 404
    caller.http.patch(f"/v1/webhooks/{off['id']}", json={"is_active": True})
    receiver.statuses = []
    job_id = caller.finished("pages/3")
    deadline = time.monotonic() + 60
    while receiver.received[-1].job_id != job_id:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_new_url_holds_for_what_is_still_to_be_delivered(receiver: Receiver):
    with calling(webhook_retry_schedule=[0.05] * 600) as caller:
        webhook = caller.webhook("http://127.0.0.1:1/nobody")
        caller.finished("pages/1")
        changed = caller.http.patch(f"/v1/webhooks/{webhook['id']}", json={"url": receiver.url}).json()
        assert changed["url"] == receiver.url
        receiver.wait(1)


def test_the_log_is_paged_and_filtered(caller: Caller, receiver: Receiver):
    webhook = caller.webhook(receiver.url)
    receiver.statuses = [500]
    jobs = [caller.finished("pages/1")]
    receiver.wait(2)
    jobs += [caller.finished("pages/2"), caller.finished("pages/3")]
    caller.settled(webhook["id"], 4)
    answer = caller.http.get(f"/v1/webhooks/{webhook['id']}/deliveries", params={"page_size": 3}).json()
    assert (answer["page"], answer["page_size"], answer["page_count"]) == (1, 3, 2)
    assert [one["job_id"] for one in answer["items"]] == [jobs[2], jobs[1], jobs[0]]
    rest = caller.attempts(webhook["id"], page_size=3, page=2)
    assert [(one["job_id"], one["status"]) for one in rest] == [(jobs[0], "failed")]
    assert caller.attempts(webhook["id"], status="failed") == rest
    assert len(caller.attempts(webhook["id"], status="success")) == 3
    assert caller.attempts(webhook["id"], status="delivered") == []
    too_many = caller.http.get(f"/v1/webhooks/{webhook['id']}/deliveries", params={"page_size": 101})
    assert (too_many.status_code, too_many.json()["detail"][0]["loc"]) == (422, ["query", "page_size"])


def test_an_eleventh_webhook_is_refused(caller: Caller):
    webhooks = [caller.webhook(f"http://127.0.0.1:1/{number}") for number in range(10)]
    body = {"url": "http://127.0.0.1:1/", "event_type": "extract_completed"}
    refused = caller.http.post("/v1/webhooks", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "WEBHOOK_LIMIT_REACHED")
    second = caller.http.get("/v1/webhooks", params={"page": 2, "page_size": 4}).json()
    assert [one["id"] for one in second["items"]] == [one["id"] for one in webhooks[4:8]]
    assert (second["page"], second["page_size"], second["page_count"]) == (2, 4, 3)
    caller.http.delete(f"/v1/webhooks/{webhooks[0]['id']}")
    assert caller.http.post("/v1/webhooks", json=body).status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        {"url": "http://127.0.0.1/"},
        {"event_type": "extract_completed"},
        {"url": "", "event_type": "extract_completed"},
        {"url": "ftp://127.0.0.1/", "event_type": "extract_completed"},
        {"url": "http://[", "event_type": "extract_completed"},
        {"url": "http://127.0.0.1/", "event_type": "job_completed"},
        [],
    ],
)
def test_a_registration_out_of_bounds_makes_no_webhook(caller: Caller, body: object):
    answer = caller.http.post("/v1/webhooks", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "VALIDATION_ERROR")
    assert caller.http.get("/v1/webhooks").json()["items"] == []


def test_the_secret_is_shown_at_creation_and_rotation_only(caller: Caller, receiver: Receiver):
    webhook = caller.webhook(receiver.url)
    path = f"/v1/webhooks/{webhook['id']}"
    rotated = caller.http.post(f"{path}/rotate-secret").json()
    caller.finished("pages/1")
    caller.settled(webhook["id"], 1)
    shown = [
        caller.http.get("/v1/webhooks").text,
        caller.http.get(path).text,
        caller.http.patch(path, json={"description": "new"}).text,
        caller.http.get(f"{path}/deliveries").text,
        json.dumps(caller.sandbox.truth()),
    ]
    for secret in (webhook["secret"], rotated["secret"]):
        assert secret.startswith("whsec_")
        assert not any(secret in text for text in shown)


CALLS = [
    ("POST", "/v1/webhooks"),
    ("GET", "/v1/webhooks"),
    ("GET", "/v1/webhooks/x"),
    ("PATCH", "/v1/webhooks/x"),
    ("DELETE", "/v1/webhooks/x"),
    ("POST", "/v1/webhooks/x/rotate-secret"),
    ("GET", "/v1/webhooks/x/deliveries"),
]


def test_a_service_without_webhooks_answers_404_throughout_in_its_own_form():
    with calling(webhooks_offered=False, error_form="wrapped") as caller:
        for method, path in CALLS:
            answer = caller.http.request(method, path, json={})
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")
        assert sum(caller.sandbox.requests().values()) == len(CALLS)
        assert caller.wait(caller.submit("pages/1"))["status"] == "completed"


def test_a_call_on_webhooks_needs_the_key_and_an_id_that_there_is(caller: Caller):
    for method, path in CALLS:
        keyless = httpx.request(method, f"{caller.sandbox.url}{path}", json={}, timeout=60)
        assert keyless.status_code == 401
    for method, path in CALLS[2:]:
        answer = caller.http.request(method, path, json={})
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
