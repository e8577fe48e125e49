"""Each fault of deliveries and of the calls on webhooks, seen from the receiver and from the caller."""

import threading
import time
from datetime import datetime
from itertools import pairwise
from statistics import median

import httpx
import pytest

from scraper_pipeline_tests.integration.sandbox.conftest import Caller, calling
from scraper_pipeline_tests.integration.sandbox.receiver import Received, Receiver
from scraper_pipeline_tests.integration.sandbox.test_webhooks import hex_mac


def seconds_until_taken(caller: Caller, job_id: str) -> float:
    """From a job's end to the acknowledgement of a delivery, by the sandbox's own clock."""
    (true,) = [job for job in caller.sandbox.truth()["jobs"] if job["job_id"] == job_id]
    taken_at = datetime.fromisoformat(true["deliveries"]["acknowledged_at"])
    return (taken_at - datetime.fromisoformat(true["completed_at"])).total_seconds()


def test_a_dropped_event_leaves_no_trace_in_the_log(caller: Caller, receiver: Receiver):
    caller.sandbox.set_faults(webhook_drop={"url_contains": "pages/1"})
    webhook = caller.webhook(receiver.url)
    dropped, told = caller.finished("pages/1"), caller.finished("pages/2")
    receiver.stays_at(1)
    assert [one["job_id"] for one in caller.settled(webhook["id"], 1)] == [told]
    truth = caller.deliveries(dropped)
    assert (truth["attempts"], truth["acknowledged"], truth["dropped"]) == (0, 0, 1)
    assert caller.sandbox.truth()["faults_struck"] == {"webhook_drop": 1}


def test_an_early_delivery_comes_before_the_submission_is_answered(caller: Caller, receiver: Receiver):
    caller.sandbox.set_faults(webhook_early=1, never_finish=1)
    webhook = caller.webhook(receiver.url)
    receiver.seconds = 0.2
    job_id = caller.submit("pages/1")
    answered = time.monotonic()
    (early,) = receiver.received
    assert early.at + 0.2 <= answered
    assert early.json["event"] == "extract_completed"
    assert early.json["data"] | {"status": "any"} == caller.job(job_id).json() | {"status": "any"}
    assert early.json["data"]["completed_at"] is None
    caller.sandbox.finish_job(job_id)
    caller.wait(job_id)
    receiver.stays_at(1)
    assert len(caller.settled(webhook["id"], 1)) == 1


def test_an_early_delivery_may_be_followed_by_the_true_one(caller: Caller, receiver: Receiver):
    caller.sandbox.set_faults(webhook_early={"again": True, "before_answer": False}, never_finish=True)
    caller.webhook(receiver.url)
    job_id = caller.submit("pages/1")
    receiver.wait(1)
    caller.sandbox.finish_job(job_id)
    early, late = receiver.wait(2)
    assert (early.job_id, late.job_id) == (job_id, job_id)
    assert early.json["data"]["status"] in ("queued", "processing")
    assert late.json["data"]["status"] == "completed"


def test_a_submission_does_not_wait_for_a_receiver_that_hangs_longer_than_the_time_out():
    gate = threading.Event()
    with Receiver() as receiver, calling(webhook_timeout=0.2, webhook_retry_schedule=[]) as caller:
        receiver.on_receipt = lambda _: gate.wait(30)
        caller.sandbox.set_faults(webhook_early=True)
        caller.webhook(receiver.url)
        before = time.monotonic()
        caller.submit("pages/1")
        assert time.monotonic() - before > 0.15
        assert receiver.received == []
        gate.set()


def test_a_duplicate_is_a_delivery_of_its_own(caller: Caller, receiver: Receiver):
    caller.sandbox.set_faults(webhook_duplicate={"copies": 2, "seconds": 0.1})
    receiver.statuses = [500]
    webhook = caller.webhook(receiver.url)
    job_id = caller.finished("pages/1")
    receiver.stays_at(4)
    attempts = caller.settled(webhook["id"], 4)
    assert len({one["id"] for one in attempts}) == 4
    assert {one["job_id"] for one in attempts} == {job_id}
    assert sorted(one["attempt_number"] for one in attempts) == [1, 1, 1, 2]
    truth = caller.deliveries(job_id)
    assert (truth["attempts"], truth["acknowledged"]) == (4, 3)


def test_identical_duplicates_come_at_once_under_one_delivery_id(caller: Caller, receiver: Receiver):
    caller.sandbox.set_faults(webhook_duplicate={"copies": 3, "identical": True})
    webhook = caller.webhook(receiver.url)
    job_id = caller.finished("pages/1")
    received = receiver.wait(4)
    receiver.stays_at(4)
    assert len({(one.body, one.headers["X-Webhook-Delivery-Id"]) for one in received}) == 1
    assert len(caller.settled(webhook["id"], 1)) == 1
    truth = caller.deliveries(job_id)
    assert (truth["attempts"], truth["acknowledged"]) == (4, 4)


def test_a_delayed_delivery_comes_after_its_seconds(caller: Caller, receiver: Receiver):
    caller.sandbox.set_faults(webhook_delay={"seconds": 0.5})
    webhook = caller.webhook(receiver.url)
    job_id = caller.finished("pages/1")
    receiver.wait(1)
    assert len(caller.settled(webhook["id"], 1)) == 1
    assert seconds_until_taken(caller, job_id) >= 0.5


def test_a_delayed_delivery_is_overtaken_by_a_later_one(caller: Caller, receiver: Receiver):
    caller.sandbox.set_faults(webhook_delay={"seconds": 60, "url_contains": "pages/1"})
    webhook = caller.webhook(receiver.url)
    late, prompt = caller.finished("pages/1"), caller.finished("pages/2")
    (received,) = receiver.wait(1)
    assert received.job_id == prompt
    assert late in [one["job_id"] for one in caller.attempts(webhook["id"], status="pending")]


def test_events_out_of_order_come_in_reverse_once_another_has_overtaken_them(
    caller: Caller, receiver: Receiver
):
    caller.sandbox.set_faults(webhook_out_of_order={"count": 2, "seconds": 60})
    webhook = caller.webhook(receiver.url)
    jobs = [caller.finished(f"pages/{number}") for number in (1, 2)]
    receiver.stays_at(0)
    jobs.append(caller.finished("pages/3"))
    received = receiver.wait(3)
    assert received[0].job_id == jobs[2]
    assert {one.job_id for one in received} == set(jobs)
    caller.settled(webhook["id"], 3)


def test_an_event_that_nothing_overtakes_is_held_no_longer_than_its_seconds(
    caller: Caller, receiver: Receiver
):
    caller.sandbox.set_faults(webhook_out_of_order={"seconds": 0.3})
    caller.webhook(receiver.url)
    caller.finished("pages/1")
    receiver.stays_at(1, seconds=0.5)


@pytest.mark.parametrize("form", ["other_secret", "garbage", "not_ascii", "empty", "absent"])
def test_a_wrong_signature_is_one_attempts_own(caller: Caller, receiver: Receiver, form: str):
    caller.sandbox.set_faults(webhook_wrong_signature={"count": 1, "form": form})
    webhook = caller.webhook(receiver.url)
    receiver.statuses = [401]
    caller.finished("pages/1")
    wrong, right = receiver.wait(2)
    right_for_wrong = hex_mac(wrong, webhook["secret"])
    expected = {
        "garbage": f"{right_for_wrong[:-1]}~",
        "not_ascii": "sha256=é".encode().decode("latin-1"),
        "empty": "",
        "absent": None,
    }
    shown = wrong.headers["X-Webhook-Signature"]
    if form == "other_secret":
        assert shown != right_for_wrong
        assert len(shown) == 64
    else:
        assert shown == expected[form]
    assert right.headers["X-Webhook-Signature"] == hex_mac(right, webhook["secret"])
    assert [one["http_status"] for one in caller.settled(webhook["id"], 2)] == [401, 200]


def test_a_delivery_may_still_be_signed_with_the_secret_before_the_rotation(
    caller: Caller, receiver: Receiver
):
    caller.sandbox.set_faults(webhook_wrong_signature={"count": 1, "form": "previous_secret"})
    webhook = caller.webhook(receiver.url)
    caller.http.post(f"/v1/webhooks/{webhook['id']}/rotate-secret").raise_for_status()
    caller.finished("pages/1")
    (received,) = receiver.wait(1)
    assert received.headers["X-Webhook-Signature"] == hex_mac(received, webhook["secret"])


@pytest.mark.parametrize("chunked", [False, True])
def test_a_slow_sender_takes_its_time_over_the_body(caller: Caller, receiver: Receiver, chunked: bool):
    caller.sandbox.set_faults(webhook_slow={"count": 1, "seconds": 1.2, "chunked": chunked})
    webhook = caller.webhook(receiver.url)
    job_id = caller.finished("pages/1")
    (received,) = receiver.wait(1)
    assert ("Content-Length" in received.headers) is not chunked
    assert received.headers["X-Webhook-Signature"] == hex_mac(received, webhook["secret"])
    assert caller.settled(webhook["id"], 1)[0]["status"] == "success"
    assert seconds_until_taken(caller, job_id) >= 1.0


def test_all_faults_at_once_leave_no_delivery_pending(caller: Caller, receiver: Receiver):
    caller.sandbox.set_faults(
        webhook_drop=0.2,
        webhook_early=0.2,
        webhook_duplicate=0.3,
        webhook_delay={"probability": 0.3, "seconds": 0.1},
        webhook_out_of_order={"probability": 0.3, "seconds": 0.2},
        webhook_wrong_signature=0.3,
        webhook_slow={"probability": 0.1, "seconds": 0.1},
    )
    webhook = caller.webhook(receiver.url)

    def refuse_some(received: Received) -> None:
        if received.headers["X-Webhook-Signature"] != hex_mac(received, webhook["secret"]):
            receiver.statuses.insert(0, 401)

    receiver.on_receipt = refuse_some
    jobs = [caller.finished(f"pages/{number}") for number in range(40)]
    time.sleep(0.6)
    attempts = caller.settled(webhook["id"], 1)
    told = {one["job_id"] for one in attempts}
    dropped = {job_id for job_id in jobs if caller.deliveries(job_id)["dropped"]}
    assert told | dropped == set(jobs)
    assert not told & dropped
    struck = caller.sandbox.truth()["faults_struck"]
    assert {name for name in struck if name.startswith("webhook_")} == {
        "webhook_drop",
        "webhook_early",
        "webhook_duplicate",
        "webhook_delay",
        "webhook_out_of_order",
        "webhook_wrong_signature",
        "webhook_slow",
    }


def test_a_lost_answer_leaves_a_webhook_and_a_new_secret_behind(caller: Caller, receiver: Receiver):
    caller.sandbox.set_faults(webhook_answer_lost={"count": 1, "on": "create_webhook"})
    with pytest.raises(httpx.RemoteProtocolError):
        caller.webhook(receiver.url)
    (webhook,) = caller.http.get("/v1/webhooks").json()["items"]
    known = caller.http.post(f"/v1/webhooks/{webhook['id']}/rotate-secret").json()["secret"]
    caller.sandbox.set_faults(webhook_answer_lost={"count": 1, "on": "rotate_secret"})
    with pytest.raises(httpx.RemoteProtocolError):
        caller.http.post(f"/v1/webhooks/{webhook['id']}/rotate-secret")
    caller.finished("pages/1")
    (received,) = receiver.wait(1)
    assert received.headers["X-Webhook-Signature"] != hex_mac(received, known)


def test_server_errors_of_the_calls_on_webhooks_do_nothing(caller: Caller):
    caller.sandbox.set_faults(webhook_500={"count": 1, "on": "create_webhook", "status": 503})
    body = {"url": "http://127.0.0.1:1/", "event_type": "extract_completed"}
    assert caller.http.post("/v1/webhooks", json=body).status_code == 503
    assert caller.http.get("/v1/webhooks").json()["items"] == []
    caller.sandbox.set_faults(rate_limit_429={"on": "rotate_secret"})
    webhook = caller.webhook("http://127.0.0.1:1/")
    assert caller.http.post(f"/v1/webhooks/{webhook['id']}/rotate-secret").status_code == 429


def submit_steadily(caller: Caller, count: int) -> float:
    """The median of the seconds that a submission takes, at no more than fifty a second."""
    times = []
    for number in range(count):
        begun = time.perf_counter()
        caller.submit(f"pages/{number}")
        times.append(time.perf_counter() - begun)
        time.sleep(max(0.0, 0.02 - times[-1]))
    return median(times)


def test_thousands_of_waiting_deliveries_and_a_steady_stream_do_not_slow_the_service(receiver: Receiver):
    """The receiver refuses everything, so that each event waits for its next attempt."""
    with calling(webhook_retry_schedule=[60]) as caller:
        unburdened = submit_steadily(caller, 20)
        for _ in range(10):
            caller.webhook("http://127.0.0.1:1/nobody")
        for _ in range(500):
            caller.submit("empty")
        deadline = time.monotonic() + 60
        while sum(job["deliveries"]["attempts"] for job in caller.sandbox.truth()["jobs"]) < 5000:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (hook,) = caller.http.get("/v1/webhooks", params={"page_size": 1}).json()["items"]
        caller.http.delete(f"/v1/webhooks/{hook['id']}").raise_for_status()
        caller.webhook(receiver.url)
        assert submit_steadily(caller, 100) < 5 * unburdened + 0.05
        received = receiver.wait(100)
        gaps = [after.at - before.at for before, after in pairwise(received)]
        assert sorted(gaps)[95] < 1.0
