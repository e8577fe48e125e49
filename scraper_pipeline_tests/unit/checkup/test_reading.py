"""How a delivery is signed and where it names its job, found without being told."""

import json
from datetime import UTC, datetime

import pytest
from pydantic import SecretStr

from scraper_pipeline.checkup.live.deliveries import judge_delivery
from scraper_pipeline.checkup.live.endpoint import RawDelivery
from scraper_pipeline.checkup.live.reading import find_paths, find_signatures
from scraper_pipeline.sandbox.webhooks.book import make_secret
from scraper_pipeline.sandbox.webhooks.signatures import Scheme, sign
from scraper_pipeline.scraper_api import Delivery as LoggedDelivery
from scraper_pipeline.settings import load_settings

BODY = b'{"data": {"job_id": "j1"}}'


def _delivery(scheme: Scheme, secret: str, body: bytes = BODY) -> RawDelivery:
    headers = sign(
        BODY,
        scheme=scheme,
        header="X-Sig",
        secret=secret,
        previous_secret=None,
        message_id="m",
        at=datetime.now(UTC),
    )
    others = [("Content-Type", "application/json"), ("X-Other", "00" * 32), ("X-Höflich", "ja")]
    raw = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in (*others, *headers))
    return RawDelivery(raw, body, 0.0)


@pytest.mark.parametrize(
    ("scheme", "header", "found"),
    [
        ("hex", "X-Sig", "hex"),
        ("upper_hex", "X-Sig", "hex"),
        ("sha256", "X-Sig", "sha256="),
        ("base64", "X-Sig", "base64"),
        ("list", "X-Sig", "hex"),
        ("standard", "webhook-signature", "standard"),
    ],
)
def test_header_and_scheme_are_found_among_all_headers(scheme: Scheme, header: str, found: str):
    secret = make_secret()
    [signature] = find_signatures(_delivery(scheme, secret), SecretStr(secret))
    assert (signature.header, str(signature.scheme)) == (header, found)


def test_a_signature_by_another_secret_or_of_another_body_is_none():
    secret = make_secret()
    assert find_signatures(_delivery("hex", make_secret()), SecretStr(secret)) == []
    assert find_signatures(_delivery("hex", secret, BODY + b" "), SecretStr(secret)) == []


def test_paths_are_found_wherever_they_lead_through_objects_the_shortest_first():
    body = json.dumps(
        {
            "about": {"job": "j1", "deep": {"er": {"still": "j1"}}},
            "id": "j1",
            "list": ["j1"],
            "dotted.name": "j1",
            "text": "on j1",
            "data": {"markdown": "other"},
        }
    ).encode()
    assert find_paths(body, {"j1"}) == ["id", "about.job", "about.deep.er.still"]


@pytest.mark.parametrize("body", [b"", b"no json", b"[" * 5000, b'"j1"', b'["j1"]', b"\xff\xfe"])
def test_a_body_without_objects_has_no_paths(body: bytes):
    assert find_paths(body, {"j1"}) == []


def test_what_stands_in_no_header_is_looked_for_in_the_body():
    secret = make_secret()
    body = b'{"kind": "extract_completed", "uid": "d1", "about": {"job": "j1"}}'
    log = [LoggedDelivery(delivery_id="d1", job_id="j1")]
    settings = load_settings({})
    found = judge_delivery(RawDelivery((), body, 0.0), SecretStr(secret), "j1", log, settings)
    assert {name: value for one in found for name, value in one.to_set.items()} == {
        "SCRAPER_WEBHOOK_JOB_ID_PATHS": "about.job",
        "SCRAPER_WEBHOOK_EVENT_PATHS": "kind",
        "SCRAPER_WEBHOOK_DELIVERY_ID_PATHS": "uid",
    }
    nowhere = judge_delivery(RawDelivery((), b'["j1"]', 0.0), SecretStr(secret), "j1", log, settings)
    assert [str(one.grade) for one in nowhere] == ["problem", "problem", "warning", "warning"]
