"""Answers are read leniently, and no value that crosses the border shows what it must not show."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from scraper_pipeline.scraper_api import (
    AcceptedJob,
    Job,
    JobError,
    JobListing,
    JobSummary,
    Page,
    is_retryable_code,
)

NOW = datetime(2026, 5, 27, tzinfo=UTC)


def job(**fields: Any) -> Job:
    return Job.model_validate({"job_id": "j-1", "status": "completed", **fields})


@pytest.mark.parametrize(
    ("data", "page"),
    [
        (None, None),
        ({}, Page()),
        ({"markdown": ""}, Page(markdown="")),
        ({"markdown": 7, "html": "<p>"}, Page(html="<p>")),
        ("text", None),
        ([], None),
    ],
)
def test_a_completed_job_without_content_is_read_as_that(data: object, page: Page | None) -> None:
    assert job(data=data).page == page


def test_a_job_needs_nothing_but_its_id_and_status() -> None:
    read = job(created_at=7, completed_at="soon", metadata=[1], error=3, tokens_charged="many", more={"x": 1})

    assert (read.created_at, read.completed_at, read.error, read.tokens_charged) == (None, None, None, None)
    assert read.metadata == {}
    assert read.unread_times == {"created_at": "7", "completed_at": "soon"}
    lacking: list[Any] = [
        {"job_id": "j-1"},
        {"status": "queued"},
        {"job_id": "", "status": "queued"},
        None,
        [],
    ]
    for payload in lacking:
        with pytest.raises(ValidationError):
            Job.model_validate(payload)


def test_numbers_are_guarded() -> None:
    assert job(tokens_charged=2.0).tokens_charged == 2
    no_counts: list[Any] = [True, 1.5, "1", 1e300, {}]
    assert [job(tokens_charged=value).tokens_charged for value in no_counts] == [None] * 5
    assert job(metadata={"http_status": 404}).http_status == 404
    no_statuses: list[Any] = [0, 99, 600, True, "200", None, 2**62]
    assert [job(metadata={"http_status": value}).http_status for value in no_statuses] == [None] * 7


@pytest.mark.parametrize(
    ("status", "is_terminal"),
    [("queued", False), ("processing", False), ("completed", True), ("failed", True), ("cancelled", True),
     ("archived", False), ("Completed", False)],
)  # fmt: skip
def test_three_statuses_are_terminal(status: str, is_terminal: bool) -> None:
    assert job(status=status).is_terminal is is_terminal


@pytest.mark.parametrize(
    ("code", "flag", "is_retryable"),
    [
        ("TIMEOUT", None, True),
        ("TIMEOUT", False, False),
        ("PERMANENT_BLOCK", None, False),
        ("PERMANENT_BLOCK", True, True),
        ("NEVER_HEARD_OF", None, True),
        ("NEVER_HEARD_OF", False, False),
        ("CANCELLED", None, False),
        (None, None, True),
    ],
)
def test_the_flag_wins_over_the_table_and_the_unknown_is_retryable(
    code: str | None, flag: bool | None, is_retryable: bool
) -> None:
    assert is_retryable_code(code, flag) is is_retryable
    assert JobError.model_validate({"code": code, "retryable": flag}).is_retryable is is_retryable


def test_an_empty_balance_is_no_fault_of_the_target() -> None:
    assert JobError(code="PAYMENT_REQUIRED", retryable=False).stops_account
    assert not JobError(code="TIMEOUT").stops_account


def test_a_jobs_error_is_one_capped_line_whatever_the_service_wrote() -> None:
    error = job(
        error={"code": "A" * 999, "message": "a\x1b[31m\r\n\u2028b" + "x" * 9999, "retryable": "yes"}
    ).error

    assert error is not None
    assert error.message.startswith("a [31m b")
    assert (len(error.code), len(error.message), error.retryable) == (100, 500, None)
    assert job(error="boom").error == JobError(message="boom")
    assert job(error={}).error == JobError(code="UNKNOWN")


def test_no_page_content_is_in_a_repr_or_a_validation_error() -> None:
    shown = repr(job(data={"markdown": "secret", "html": "secret"}, metadata={"title": "secret"}))
    with pytest.raises(ValidationError) as raised:
        Job.model_validate({"job_id": {"markdown": "secret"}, "data": {"markdown": "secret"}})

    assert "secret" not in shown + str(raised.value)


@pytest.mark.parametrize(
    ("value", "is_capped"), [(None, False), (False, False), (True, True), ("no", True), (0, True)]
)
def test_only_a_plain_no_says_that_a_listing_is_whole(value: object, is_capped: bool) -> None:
    payload = {"jobs": [], "is_capped": value, "requested_at": NOW, "received_at": NOW}

    assert JobListing.model_validate(payload).is_capped is is_capped


def test_values_can_be_made_by_name() -> None:
    summary = JobSummary(job_id="j-1", status="queued", url="https://a", created_at=NOW)
    listing = JobListing(jobs=(summary,), requested_at=NOW, received_at=NOW)

    assert listing.jobs[0].created_at == NOW
    assert AcceptedJob(job_id="j-1") == AcceptedJob.model_validate({"job_id": "j-1", "status": None})
    assert Job(job_id="j-1", status="failed", error=JobError(code="TIMEOUT")).error == JobError(
        code="TIMEOUT"
    )
