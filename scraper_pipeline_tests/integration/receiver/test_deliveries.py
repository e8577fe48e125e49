"""Deliveries over HTTP to a real process: what is accepted, refused, quarantined, and what is kept of it."""

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scraper_pipeline.ledger import Channel, Ledger
from scraper_pipeline_tests.integration.receiver.receiving import (
    PATH,
    SECRET,
    ReceiverProcess,
    envelope,
    new_job_id,
    running_receiver,
    sign,
    write_secrets,
)

MEBIBYTE = 1024 * 1024
CAP = 16 * MEBIBYTE


@pytest.fixture
def kept(receiver: ReceiverProcess) -> Iterator[None]:
    """A test of refusals: no row may appear."""
    before = receiver.jobs(), receiver.quarantined()
    yield
    assert (receiver.jobs(), receiver.quarantined()) == before


def test_a_signed_delivery_is_kept_with_its_type_and_id(receiver: ReceiverProcess) -> None:
    job_id = new_job_id()
    answer = receiver.deliver(job_id)
    assert (answer.status, answer.outcome) == (200, "accepted")
    row = receiver.row(job_id)
    assert (row["event_type"], row["delivery_id"]) == ("extract_completed", f"d-of-{job_id}")
    assert row["webhook_at"] is not None
    assert row["processed_at"] is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1.0,"b":"\\u00e9","c":1e2,"job_id":"%s"}',
        b'\r\n{ "job_id" :\t"%s" }\r\n\r\n',
        b'\xef\xbb\xbf{"job_id":"%s"}\n',
    ],
)
def test_r1_the_raw_bytes_are_verified_and_parsed_after(receiver: ReceiverProcess, body: bytes) -> None:
    job_id = new_job_id()
    body %= job_id.encode()
    assert receiver.post(body).outcome == "accepted"
    assert receiver.post(body + b" ", sign(body)).status == 401
    assert job_id in receiver.jobs()


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(
    "signature",
    [
        b"sha256=\xe9",
        b"\xff" * 64,
        b"",
        b" ",
        b"0" * 63,
        b"0" * 64,
        b"sha256=" + b"0" * 64,
        b"a" * 100_000,
        b"sha256=" + b"\xc2\xb2" * 32,
    ],
)
def test_r2_r3_a_malformed_or_wrong_signature_is_401(receiver: ReceiverProcess, signature: bytes) -> None:
    assert receiver.post(envelope(new_job_id()), signature).status == 401


@pytest.mark.usefixtures("kept")
def test_a_delivery_without_a_signature_is_401(receiver: ReceiverProcess) -> None:
    body = envelope(new_job_id())
    with receiver.connect() as connection:
        connection.send_head({"Content-Length": str(len(body))})
        connection.send(body)
        assert connection.read_answer().status == 401


def test_r3_upper_case_and_lists_are_accepted(receiver: ReceiverProcess) -> None:
    body = envelope(new_job_id())
    digits = sign(body).removeprefix("sha256=")
    for signature in (digits.upper(), f"SHA256={digits.upper()}", f"{'0' * 64}, {digits}"):
        assert receiver.post(body, signature).status == 200


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, gzip", "x-unknown"])
def test_r11_an_encoded_body_is_415_even_if_signed(receiver: ReceiverProcess, encoding: str) -> None:
    body = envelope(new_job_id())
    assert receiver.post(body, headers={"Content-Encoding": encoding}).status == 415


def test_r11_the_encoding_identity_is_none(receiver: ReceiverProcess) -> None:
    answer = receiver.post(envelope(new_job_id()), headers={"Content-Encoding": "identity"})
    assert answer.outcome == "accepted"


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        (b"not json ", "not JSON"),
        (b'["%s"]', "not a JSON object"),
        (b'{"job_id":"j","x":NaN,"marker":"%s"}', "not JSON"),
        (b'{"event":"extract_completed","marker":"%s"}', "no job id"),
        (b'{"job_id":"a\\u0000b","marker":"%s"}', "a job id that can't be one"),
    ],
)
def test_r12_a_signed_body_that_can_not_be_used_is_quarantined(
    receiver: ReceiverProcess, start: bytes, reason: str
) -> None:
    marker = new_job_id().encode()
    body = start % marker if b"%s" in start else start + marker
    answer = receiver.post(body)
    assert (answer.status, answer.outcome) == (200, "quarantined")
    assert (reason, body) in receiver.quarantined()


def test_r12_a_quarantined_megabyte_is_cut(receiver: ReceiverProcess) -> None:
    body = b"no json " + new_job_id().encode() + b"x" * MEBIBYTE
    assert receiver.post(body).outcome == "quarantined"
    assert ("not JSON", body[: 64 * 1024]) in receiver.quarantined()


def test_r7_the_same_delivery_in_two_processes_at_once_is_one_row(
    receiver: ReceiverProcess, tmp_path: Path
) -> None:
    with running_receiver(receiver.ledger_url, tmp_path) as other, ThreadPoolExecutor(16) as pool:
        for _ in range(20):
            job_id = new_job_id()
            answers = list(pool.map(lambda one, job_id=job_id: one.deliver(job_id), [receiver, other] * 8))
            assert {answer.status for answer in answers} == {200}
            assert sorted(answer.outcome for answer in answers) == ["accepted"] + ["duplicate"] * 15
            receiver.row(job_id)


def test_r8_another_delivery_of_the_same_job_is_a_duplicate_and_changes_nothing(
    receiver: ReceiverProcess,
) -> None:
    job_id = new_job_id()
    receiver.deliver(job_id)
    before = receiver.row(job_id)
    answer = receiver.deliver(job_id, delivery_id="another", event="batch_completed")
    assert (answer.status, answer.outcome) == (200, "duplicate")
    assert receiver.row(job_id) == before


@pytest.mark.usefixtures("kept")
def test_r10_a_declared_length_beyond_the_cap_is_413_before_the_body_is_sent(
    receiver: ReceiverProcess,
) -> None:
    with receiver.connect() as connection:
        connection.send_head({"Content-Length": str(CAP + 1), "X-Webhook-Signature": "0" * 64})
        assert connection.read_answer().status == 413


@pytest.mark.usefixtures("kept")
def test_r10_an_endless_chunked_body_is_413_at_the_cap(receiver: ReceiverProcess) -> None:
    chunk = b"100000\r\n" + b"x" * MEBIBYTE + b"\r\n"
    with receiver.connect() as connection:
        connection.send_head({"Transfer-Encoding": "chunked", "X-Webhook-Signature": "0" * 64})
        with contextlib.suppress(ConnectionError):
            for _ in range(17):
                connection.send(chunk)
        assert connection.read_answer().status == 413


def test_r10_a_body_of_exactly_the_cap_is_taken(receiver: ReceiverProcess) -> None:
    job_id = new_job_id()
    start = b'{"job_id":"%s","text":"' % job_id.encode()
    body = start + b"x" * (CAP - len(start) - 2) + b'"}'
    assert len(body) == CAP
    assert receiver.post(body).outcome == "accepted"
    assert receiver.post(body[:-2] + b'x"}').status == 413


@pytest.mark.usefixtures("kept")
def test_r10_what_follows_the_declared_length_is_no_part_of_the_body(receiver: ReceiverProcess) -> None:
    with receiver.connect() as connection:
        connection.send_head({"Content-Length": "10", "X-Webhook-Signature": "0" * 64})
        connection.send(b"x" * MEBIBYTE)
        assert connection.read_answer().status in (400, 401)  # the rest is no request either


def test_r10_a_chunked_delivery_without_a_length_is_taken(receiver: ReceiverProcess) -> None:
    job_id = new_job_id()
    body = envelope(job_id)
    with receiver.connect() as connection:
        connection.send_head({"Transfer-Encoding": "chunked", "X-Webhook-Signature": sign(body)})
        for byte in body:
            connection.send(b"1\r\n%c\r\n" % byte)
        connection.send(b"0\r\n\r\n")
        assert connection.read_answer().outcome == "accepted"


def test_r13_r14_an_unknown_job_and_type_are_kept_and_counted(receiver: ReceiverProcess) -> None:
    job_id = new_job_id()
    before = receiver.metric("scraper_receiver_events_total", event_type="other")
    answer = receiver.deliver(job_id, event="extract_archived", more={"fields": [1]})
    assert answer.outcome == "accepted"
    assert receiver.row(job_id)["event_type"] == "extract_archived"
    assert receiver.metric("scraper_receiver_events_total", event_type="other") == before + 1


def test_r14_the_older_envelope_is_kept(receiver: ReceiverProcess) -> None:
    job_id = new_job_id()
    receiver.post(json.dumps({"job_id": job_id, "event_type": "crawl_completed", "id": "d-7"}).encode())
    row = receiver.row(job_id)
    assert (row["event_type"], row["delivery_id"]) == ("crawl_completed", "d-7")


def test_r15_a_late_processing_event_leaves_a_processed_job_processed(receiver: ReceiverProcess) -> None:
    job_id = new_job_id()
    with Ledger.open(receiver.ledger_url) as ledger:
        ledger.news.record([job_id], Channel.POLL)
    answer = receiver.deliver(job_id)
    assert answer.outcome == "accepted"
    row = receiver.row(job_id)
    assert row["poll_at"] is not None
    assert receiver.deliver(job_id, event="extract_processing").outcome == "duplicate"
    assert receiver.row(job_id) == row


def test_r16_the_same_delivery_twice_on_purpose_is_answered_twice(receiver: ReceiverProcess) -> None:
    body = envelope(new_job_id())
    assert [receiver.post(body).outcome for _ in range(3)] == ["accepted", "duplicate", "duplicate"]


def test_headers_name_the_event_and_the_delivery_where_the_body_does_not(receiver: ReceiverProcess) -> None:
    job_id = new_job_id()
    headers: dict[str, str | bytes] = {
        "X-Webhook-Event": "batch_completed",
        "X-Webhook-Delivery-Id": "d-9\xe9".encode("latin-1"),
    }
    receiver.post(json.dumps({"job_id": job_id}).encode(), headers=headers)
    row = receiver.row(job_id)
    assert (row["event_type"], row["delivery_id"]) == ("batch_completed", "d-9é")


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_post_is_allowed(receiver: ReceiverProcess, method: str) -> None:
    with receiver.connect() as connection:
        connection.send_head({}, method)
        answer = connection.read_answer()
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("path", [f"{PATH}/", "/webhooks", "/", "/docs", "/openapi.json"])
def test_no_other_path_takes_deliveries(receiver: ReceiverProcess, path: str) -> None:
    body = envelope(new_job_id())
    with receiver.connect() as connection:
        connection.send_head({"Content-Length": str(len(body)), "X-Webhook-Signature": sign(body)}, path=path)
        connection.send(body)
        assert connection.read_answer().status in (307, 404, 405)


def test_a_connection_serves_one_delivery_after_another(receiver: ReceiverProcess) -> None:
    with receiver.connect() as connection:
        for signature in (None, "0" * 64, "nonsense", None):
            body = envelope(new_job_id())
            headers = {"Content-Length": str(len(body)), "X-Webhook-Signature": signature or sign(body)}
            connection.send_head(headers)
            connection.send(body)
            answer = connection.read_answer()
            assert answer.status == (401 if signature else 200)
            if answer.headers.get("connection") == "close":
                break


def test_no_answer_names_the_software(receiver: ReceiverProcess) -> None:
    assert "server" not in receiver.deliver(new_job_id()).headers
    assert "server" not in receiver.get("/healthz").headers


def test_r6_a_rotated_secret_is_accepted_at_once_and_the_old_one_until_it_expires(
    own_receiver: ReceiverProcess,
) -> None:
    body = envelope(new_job_id())
    assert own_receiver.post(body, sign(body, "new-secret")).status == 401
    write_secrets(own_receiver.secrets_path, SECRET, "new-secret")
    assert own_receiver.post(body, sign(body, "new-secret")).status == 200
    assert own_receiver.post(body, sign(body, SECRET)).status == 200
    write_secrets(own_receiver.secrets_path, "new-secret", expires_at="2026-01-02T00:00:00Z")
    assert own_receiver.post(body, sign(body, "another")).status == 401  # any failure has the file read
    assert own_receiver.post(body, sign(body, "new-secret")).status == 401
    assert own_receiver.post(body, sign(body, SECRET)).status == 401


def test_r17_no_secret_and_no_content_is_in_the_log(own_receiver: ReceiverProcess) -> None:
    for answer in (
        own_receiver.deliver(new_job_id()),
        own_receiver.post(envelope(new_job_id()), "0" * 64),
        own_receiver.post(b"Confidential page, no json"),
        own_receiver.post(envelope("a\0b")),
        own_receiver.post(envelope(new_job_id()), headers={"Content-Encoding": "gzip"}),
    ):
        assert answer.status < 500
    own_receiver.secrets_path.write_text(f'{{"secrets": [{{"secret": "{SECRET}"')
    own_receiver.post(envelope(new_job_id()), "0" * 64)
    assert own_receiver.deliver(new_job_id()).outcome == "accepted"  # with the secret that it knew
    with own_receiver.connect() as connection:
        connection.send(b"Confidential page\r\n\r\n")
        connection.read_answer()
    ready = own_receiver.get("/readyz")
    assert ready.status == 503
    said = own_receiver.log() + ready.body.decode() + own_receiver.get("/metrics").body.decode()
    assert SECRET not in said
    assert "Confidential" not in said
