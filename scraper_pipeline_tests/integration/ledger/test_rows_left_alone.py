"""Rows that are past a transition's state are left alone by it, whatever else would keep it from them."""

import pytest

from scraper_pipeline.ledger import GivenUp, Ledger, LetterCode
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    PERMANENT,
    RETRYABLE,
    Result,
    accept,
    attempts,
    bring_news,
    claim,
    finish,
    page,
    settle,
)

URL = "https://site.test/a"
LOST = GivenUp(LetterCode.LOST, "The service does not know it.")


def test_a_row_that_waits_for_its_job_is_not_claimed_again(ledger: Ledger) -> None:
    accept(ledger, URL)
    assert claim(ledger) == []
    assert attempts(ledger, URL) == ["accepted"]


@pytest.mark.parametrize(
    "end", [page(), PERMANENT, RETRYABLE, LOST], ids=["stored", "dead", "retried", "lost"]
)
def test_a_row_that_has_come_to_its_end_is_not_claimed_again(ledger: Ledger, end: Result) -> None:
    [job_id] = accept(ledger, URL)
    finish(ledger, {job_id: end})
    before = attempts(ledger, URL)
    assert claim(ledger) == []
    assert attempts(ledger, URL) == before


def test_a_job_that_is_given_up_once_more_leaves_the_attempt_that_followed_it_alone(ledger: Ledger) -> None:
    [job_id] = accept(ledger, URL)
    finish(ledger, {job_id: LOST})
    ledger.resubmissions.resubmit(ledger.resubmissions.settled_targets(DAY, "failed"))
    bring_news(ledger, job_id)
    settle(ledger, LOST)
    assert attempts(ledger, URL) == ["superseded", "planned"]
    assert ledger.audit.check() == []
