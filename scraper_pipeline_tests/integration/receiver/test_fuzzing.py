"""Whatever is sent, rightly framed or not: no 5xx, and no row without a valid signature."""

import contextlib
import json
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from scraper_pipeline_tests.integration.receiver.receiving import (
    PATH,
    Answer,
    ReceiverProcess,
    new_job_id,
    sign,
)

bounded = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.generate],  # each example is a request to a process that remembers: shrinking proves little
)

header_values = st.binary(max_size=60).map(lambda raw: bytes(byte for byte in raw if byte not in b"\r\n\0"))
headers = st.dictionaries(
    st.sampled_from(
        [
            "X-Webhook-Signature", "X-Webhook-Event", "X-Webhook-Delivery-Id", "Content-Type", "Content-Encoding",
            "Content-Length", "Transfer-Encoding", "Expect", "Connection", "Upgrade", "webhook-signature",
        ]
    ),
    header_values
    | st.sampled_from(
        [b"100-continue", b"chunked", b"gzip", b"identity", b"websocket", b"Upgrade", b"0", b"-1", b"5, 5", b"1e3",
         b"0" * 64, b"sha256=" + b"f" * 64, b"A" * 43 + b"="]
    ),
    max_size=5,
)  # fmt: skip
bodies = st.binary(max_size=300) | st.builds(
    lambda document: json.dumps(document).encode(),
    st.dictionaries(
        st.sampled_from(["job_id", "data", "event", "event_type", "id", "delivery_id"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
        | st.dictionaries(st.just("job_id"), st.text(max_size=20), max_size=1),
    ),
)  # fmt: skip


def exchange(receiver: ReceiverProcess, head: bytes, body: bytes, timeout: float = 0.5) -> Answer | None:
    """The answer, or None if the connection was closed without one, or the request never ended."""
    with receiver.connect(timeout) as connection, contextlib.suppress(ConnectionError, TimeoutError):
        connection.send(head + body)
        return connection.read_answer()
    return None


def head_of(method: str, path: str, fields: Mapping[str, bytes]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: receiver"]
    return b"\r\n".join(
        [*lines, *(name.encode() + b": " + value for name, value in fields.items()), b"", b""]
    )


@bounded
@given(st.sampled_from(["POST", "GET", "HEAD", "PUT"]), st.sampled_from([PATH, "/x"]), headers, bodies)
def test_no_unsigned_request_is_a_5xx_or_leaves_a_row(
    receiver: ReceiverProcess, method: str, path: str, fields: Mapping[str, bytes], body: bytes
) -> None:
    answer = exchange(receiver, head_of(method, path, {"Content-Length": b"%d" % len(body), **fields}), body)
    assert answer is None or 400 <= answer.status < 500


@bounded
@given(st.binary(max_size=400))
def test_no_raw_bytes_are_a_5xx(receiver: ReceiverProcess, raw: bytes) -> None:
    answer = exchange(receiver, raw, b"\r\n\r\n")
    assert answer is None or 400 <= answer.status < 500


@bounded
@given(headers, bodies)
def test_any_signed_body_is_kept_or_quarantined(
    receiver: ReceiverProcess, fields: Mapping[str, bytes], body: bytes
) -> None:
    framed = {
        name: bytes(
            byte for byte in value if byte >= 32 and byte != 127
        )  # others are refused as no header: 400
        for name, value in fields.items()
        if name not in ("Transfer-Encoding", "Content-Encoding", "Expect", "Connection", "Upgrade")
    }
    framed |= {"Content-Length": b"%d" % len(body), "X-Webhook-Signature": sign(body).encode()}
    answer = exchange(receiver, head_of("POST", PATH, framed), body, timeout=20)
    assert answer is not None
    assert (answer.status, answer.outcome in ("accepted", "duplicate", "quarantined")) == (200, True)


@bounded
@given(bodies, st.integers(0, 299), st.integers(1, 255), st.booleans())
def test_no_change_of_a_signed_body_leaves_a_row(
    receiver: ReceiverProcess, body: bytes, place: int, change: int, in_signature: bool
) -> None:
    marker = new_job_id()
    body = b'{"job_id":"%s","more":"' % marker.encode() + body.hex().encode() + b'"}'
    signature = sign(body).removeprefix("sha256=").encode()
    if in_signature:
        digit = signature[place % 64]
        other = b"0123456789abcdef"[(int(chr(digit), 16) + change % 15 + 1) % 16]
        signature = signature[: place % 64] + bytes([other]) + signature[place % 64 + 1 :]
    sent = bytearray(body)
    if not in_signature:
        sent[place % len(body)] ^= change
    head = head_of("POST", PATH, {"Content-Length": b"%d" % len(body), "X-Webhook-Signature": signature})
    answer = exchange(receiver, head, bytes(sent), timeout=20)
    assert answer is not None
    assert answer.status == 401


@pytest.fixture(autouse=True)
def _no_row_without_a_signature(receiver: ReceiverProcess, request: pytest.FixtureRequest):
    """Rows may only come from the one test that signs."""
    before = receiver.jobs(), receiver.quarantined()
    yield
    if "signed_body_is_kept" not in request.node.name:
        assert (receiver.jobs(), receiver.quarantined()) == before
    assert "Traceback" not in receiver.log()
