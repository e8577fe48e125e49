"""An error says whom it concerns, what it proves, and what to do."""

import pytest

from scraper_pipeline.scraper_api import (
    DeadlineExceeded,
    JobExpired,
    JobNotFound,
    NetworkError,
    ScraperError,
    Throttled,
    WebhookNotFound,
    WebhooksNotOffered,
)
from scraper_pipeline.scraper_api.refusals import refusal


@pytest.mark.parametrize(
    ("status", "proves_no_job"),
    [
        (400, True),
        (404, True),
        (429, True),
        (408, False),
        (499, False),
        (500, False),
        (503, False),
        (302, False),
        (200, False),
        (None, False),
    ],
)
def test_only_a_refusal_proves_that_there_is_no_job(status: int | None, proves_no_job: bool) -> None:
    assert ScraperError("", status=status).proves_no_job is proves_no_job


def test_what_was_never_sent_proves_that_there_is_no_job() -> None:
    assert NetworkError("", request_sent=False).proves_no_job
    assert not NetworkError("", request_sent=True).proves_no_job
    assert DeadlineExceeded("").proves_no_job
    assert Throttled("").proves_no_job
    assert WebhooksNotOffered("", status=501).proves_no_job


def test_a_404_concerns_what_the_call_was_about() -> None:
    assert type(refusal("get_job", 404, None, subject="job")) is JobNotFound
    assert type(refusal("get_job", 410, None, subject="job")) is JobExpired
    assert type(refusal("get_webhook", 404, None, subject="webhook")) is WebhookNotFound
    assert type(refusal("list_webhooks", 404, None, subject="webhooks")) is WebhooksNotOffered
    assert "GEONODE_SCRAPER_HOST" in str(refusal("list_jobs", 404, None))


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (None, "get_job: the service answered 400; correct the target's URL or options"),
        ({"code": "BAD", "message": "no"}, "400 BAD: no;"),
        ({"error": {"code": "BAD", "message": "no"}}, "400 BAD: no;"),
        ({"error": {"message": "no"}}, "400: no;"),
        ({"message": "a\nb\x00c"}, "400: a b c;"),
        ({"detail": "no"}, "400: no;"),
        (
            {"detail": [{"loc": ["body", "urls", 3], "msg": "bad"}, "junk", {"loc": 7}]},
            "400: body.urls.3: bad;",
        ),
        ({"error": "no"}, "answered 400;"),
        ([1, 2], "answered 400;"),
        ("text", "answered 400;"),
        ({"code": 7, "message": ["x"]}, "answered 400;"),
    ],
)
def test_the_message_says_what_the_service_said(payload: object, said: str) -> None:
    assert said in str(refusal("get_job", 400, payload))


def test_a_long_message_is_capped() -> None:
    assert len(str(refusal("get_job", 500, {"code": "X", "message": "y" * 100_000}))) < 700


def test_the_key_is_blotted_out_of_what_the_service_repeats() -> None:
    error = refusal("get_job", 401, {"code": "X", "message": "unknown key k-123"}, secret="k-123")

    assert "k-123" not in str(error)
    assert "unknown key ***" in str(error)
