"""Reading verified bodies: the job's id by the configured paths, in either envelope, and why a body can't be used."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper_pipeline.ledger import Delivery, QuarantinedBody
from scraper_pipeline.receiver.config import ReceiverConfig
from scraper_pipeline.receiver.events import LONGEST_JOB_ID, LONGEST_QUARANTINED, EventReader

READER = EventReader(ReceiverConfig())
ENVELOPE = {
    "event": "extract_completed",
    "webhook_id": "wh-1",
    "delivery_id": "d-1",
    "timestamp": "2026-05-27T08:16:09Z",
    "data": {"job_id": "job-1", "status": "completed", "data": {"markdown": "# A page"}},
}


def read(body: object, headers: dict[bytes, bytes] | None = None) -> Delivery | QuarantinedBody:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return READER.read(raw, headers or {})


def test_the_published_envelope_is_read():
    assert read(ENVELOPE) == Delivery("job-1", "extract_completed", "d-1")


def test_the_older_envelope_of_the_guide_is_read():
    assert read({"job_id": "job-1", "event_type": "batch_completed", "id": "d-1"}) == Delivery(
        "job-1", "batch_completed", "d-1"
    )


def test_headers_tell_what_the_body_does_not():
    headers = {b"x-webhook-event": b"crawl_completed", b"x-webhook-delivery-id": b"d-2"}
    assert read({"job_id": "job-1"}, headers) == Delivery("job-1", "crawl_completed", "d-2")
    assert read(ENVELOPE, headers) == Delivery("job-1", "extract_completed", "d-2")


def test_unknown_types_and_fields_are_kept():
    assert read({**ENVELOPE, "event": "extract_archived", "more": [1, {"x": None}]}) == Delivery(
        "job-1", "extract_archived", "d-1"
    )


def test_a_delivery_needs_nothing_but_a_job_id():
    assert read({"job_id": "job-1"}) == Delivery("job-1", None, None)


@pytest.mark.parametrize(
    "data", ["text", 5, 10**40, -1.5, True, None, [1, [2]], {}, {"job_id": 5}, {"job_id": ""}]
)
def test_a_job_id_is_found_at_the_top_when_data_has_none(data):
    assert read({"job_id": "job-1", "data": data}) == Delivery("job-1")


def test_paths_are_configurable_and_of_any_depth():
    reader = EventReader(
        ReceiverConfig(job_id_paths=("a.b-c.ü", "a"), event_paths=("a.type",), delivery_id_paths=())
    )
    assert reader.read('{"a":{"b-c":{"ü":"deep"},"type":"t"},"id":"x"}'.encode(), {}) == Delivery("deep", "t")
    assert isinstance(reader.read(b'{"a":{"b-c":{}}}', {}), QuarantinedBody)


@pytest.mark.parametrize(
    "body",
    [
        b'\r\n {"job_id" :\t"job-1" }\r\n\r\n',
        b'\xef\xbb\xbf{"job_id":"job-1"}',
        b'{"job\\u005fid":"job\\u002d1"}',
        b'{"job_id":"job-1","a":1.0,"b":"\\u00e9","c":1e2,"d":1e400,"e":-0}',
        b'{"job_id":"job-1","text":"half a pair: \\ud83c"}',
        b'{"job_id":"job-1","\\ud800":1}',
        b'{"job_id":"job-1","n":' + b"9" * 10_000 + b"}",
        b'{"job_id":"job-1","text":"a\\u0000b"}',
        b'{"job_id":"another","job_id":"job-1"}',
    ],
)
def test_odd_but_lawful_json_is_read(body):
    assert read(body) == Delivery("job-1")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"job_id=job-1", "not JSON"),
        (b'{"job_id":"job-1"', "not JSON"),
        (b'{"job_id":"job-1"} trailing', "not JSON"),
        (b'{"job_id":"job-1","x":NaN}', "not JSON"),
        (b'{"job_id":"job-1","x":[-Infinity]}', "not JSON"),
        (b'{"job_id":"job-1","x":"a\nb"}', "not JSON"),
        (b'{"job_id":"\xff"', "not JSON"),
        ('{"job_id":"job-1"}'.encode("utf-16"), "not JSON"),
        (b'{"x":' + b"[" * 100_000, "not JSON: nested too deeply"),
        (b'{"x":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001, "not JSON: nested too deeply"),
        (b'[{"job_id":"job-1"}]', "not a JSON object"),
        (b'"job-1"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{}", "no job id"),
        (b'{"job_id":null}', "no job id"),
        (b'{"job_id":17}', "no job id"),
        (b'{"job_id":{"id":"job-1"}}', "no job id"),
        (b'{"job_id":""}', "no job id"),
        (b'{"job_id":"\xff"}', "no job id"),
        (b'{"job_id":"a\\u0000b"}', "a job id that can't be one"),
        (b'{"job_id":"a\\nb"}', "a job id that can't be one"),
        (b'{"job_id":"\\ud800"}', "a job id that can't be one"),
        (b'{"job_id":"%s"}' % (b"x" * (LONGEST_JOB_ID + 1)), "a job id that can't be one"),
    ],
)
def test_what_can_not_be_used_is_quarantined_with_its_reason(body, reason):
    assert read(body) == QuarantinedBody(reason, body[:LONGEST_QUARANTINED])


def test_a_quarantined_body_is_kept_up_to_a_cap_and_never_shown():
    quarantined = read(b"secret page " * 100_000)
    assert isinstance(quarantined, QuarantinedBody)
    assert len(quarantined.body) == LONGEST_QUARANTINED
    assert "secret" not in repr(quarantined)


def test_notes_are_cut_and_freed_of_what_a_database_refuses():
    delivery = read({"job_id": "job-1", "event": "a\0\ud800" + "b" * 1000, "id": "\n"})
    assert isinstance(delivery, Delivery)
    assert delivery.event_type == "a\ufffd\ufffd" + "b" * 197
    assert delivery.delivery_id == "\ufffd"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["job_id", "data", "event", "id"]) | st.text(), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(json_values)
def test_any_document_is_either_a_delivery_of_its_job_or_quarantined(document):
    found = READER.read(json.dumps(document).encode(), {})
    if isinstance(found, Delivery):
        data = document.get("data")
        inner = data.get("job_id") if isinstance(data, dict) else None
        assert found.job_id in (inner, document.get("job_id"))
        assert found.job_id.isprintable()


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_exception(body):
    assert isinstance(READER.read(body, {}), Delivery | QuarantinedBody)
