"""Long URLs, odd numbers and odd text: no value makes a chunk fail, and both databases keep it alike."""

from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import StatementError

from scraper_pipeline.ledger import GivenUp, Ledger, LetterCode
from scraper_pipeline.ledger.schema import results, submissions
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    RETRYABLE,
    HandClock,
    accept,
    accept_planned,
    bring_news,
    claim_jobs,
    contents,
    finish,
    outcome,
    page,
    plan,
    rows,
)

A, B, C = (f"https://site.test/{name}" for name in "abc")


def test_urls_of_five_thousand_bytes_go_through_every_transition(ledger: Ledger, clock: HandClock) -> None:
    urls = [f"https://site.test/{letter}?q=" + letter * 5000 for letter in "ab\u4e2d\U0001f378"]
    accepted = accept(ledger, *urls, prefix="")
    assert len(accepted) == 4
    finish(ledger, {accepted[0]: page(), accepted[1]: RETRYABLE})
    finish(ledger, {accepted[2]: GivenUp(LetterCode.LOST, "Gone."), accepted[3]: page()})
    clock.advance(60)
    [again] = accept_planned(ledger)
    finish(ledger, {again: page(), accepted[2]: page()})
    assert {row.url for row in rows(ledger, select(results))} == set(urls)
    assert ledger.progress.of(DAY).stored == 4
    assert ledger.audit.check() == []


def test_urls_that_differ_after_five_thousand_bytes_are_two(ledger: Ledger) -> None:
    stem = "https://site.test/?q=" + "x" * 5000
    assert len(accept(ledger, f"{stem}1", f"{stem}2")) == 2


@pytest.mark.parametrize(
    "document",
    [
        {"n": 2**63 - 1},
        {"n": str(2**63)},
        {"n": 1.25e-7},
        {"n": "NaN"},
        {"n": -0.5},
        {"glass": "\U0001f378", "\u202ertl": "\u05d0"},
        {"literal": "\\u0000", "quoted": "\"'\\"},
        {"deep": {"list": [[[]], None, True, {}]}},
        {},
    ],
    ids=repr,
)
def test_metadata_comes_back_as_it_was(ledger: Ledger, document: dict[str, Any]) -> None:
    [job] = accept(ledger, A)
    finish(ledger, {job: page(metadata=document)})
    [row] = ledger.progress.read_results([DAY], ["metadata"])
    assert row["metadata"] == document


@pytest.mark.parametrize(
    "odd",
    [
        page(tokens_charged=2**31),
        page(tokens_charged=2**63 - 1),
        page(tokens_charged=-(2**63)),
        page(tokens_charged=None, http_status=None, completed_at=None),
        page(markdown="\\u0000 and \ufffd and \U0001f378 and \u2028"),
        page(markdown="x" * 2_000_000),
        page(html="<p>\u202e</p>", markdown=None),
    ],
    ids=["32 bits", "64 bits", "negative", "nothing", "odd text", "two megabytes", "html only"],
)
def test_one_odd_page_never_fails_its_chunk(ledger: Ledger, odd: Any) -> None:
    a, b, c = accept(ledger, A, B, C)
    assert finish(ledger, {a: page(), b: odd, c: page()}).stored == 3
    stored = {row.url: row for row in rows(ledger, select(results))}
    assert stored[b.removeprefix("job of ")].markdown == odd.markdown
    assert stored[b.removeprefix("job of ")].html == odd.html
    assert ledger.audit.check() == []


def test_an_error_of_the_database_shows_no_page_content(ledger: Ledger) -> None:
    """What an exception says ends in logs and in run events."""
    [job] = accept(ledger, A)
    bring_news(ledger, job)
    [claimed] = claim_jobs(ledger)
    before = contents(ledger)
    with pytest.raises(StatementError) as raised:
        ledger.outcomes.commit([outcome(claimed, page("the secret of the page", html=object()))])
    assert "INSERT INTO results" in str(raised.value)
    assert "the secret of the page" not in str(raised.value)
    assert contents(ledger) == before


def test_labels_and_options_of_any_text_travel_to_the_next_attempt(ledger: Ledger, clock: HandClock) -> None:
    plan(ledger, A)
    labels = {"shop": '\u5357 \U0001f378 "quoted"', "": "no name"}
    with ledger.submissions.writing() as connection:
        connection.execute(submissions.update().values(labels=labels, options={"wait_for": "#a > b"}))
    [job] = accept_planned(ledger)
    finish(ledger, {job: RETRYABLE})
    clock.advance(60)
    [again] = accept_planned(ledger)
    finish(ledger, {again: page()})
    [row] = ledger.progress.read_results([DAY], ["labels"])
    assert row["labels"] == labels
    assert {str(row.options) for row in rows(ledger, select(submissions))} == {"{'wait_for': '#a > b'}"}
