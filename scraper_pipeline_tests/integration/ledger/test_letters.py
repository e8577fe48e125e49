"""Dead letters are found by whatever is known of them, discarded for good, and brought back by their id alone."""

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from scraper_pipeline.ledger import GivenUp, Ledger, LetterCode, LetterFilter, LetterState, Reason, Which
from scraper_pipeline.ledger.schema import dead_letters, submissions
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    NEXT_DAY,
    PERMANENT,
    RETRYABLE,
    HandClock,
    accept,
    accept_planned,
    attempts,
    execute,
    finish,
    page,
    rows,
    target,
)

A, B, C = (f"https://site.test/{name}" for name in ("Prices", "about_us", "100%"))
LOST = GivenUp(LetterCode.LOST, "The service does not know it.")


@pytest.fixture
def parked(ledger: Ledger) -> Ledger:
    """Three letters: two blocked pages of one day, a lost one of the next."""
    ledger.submissions.plan(
        DAY,
        [target(A, {}, topic="prices", **{"who.is it": "Ö'Neill"}), target(B, topic="company")],
    )
    finish(ledger, dict.fromkeys(accept_planned(ledger), PERMANENT))
    [job] = accept(ledger, C, day=NEXT_DAY)
    finish(ledger, {job: LOST}, NEXT_DAY)
    return ledger


def _letter(ledger: Ledger, url: str, state: LetterState = LetterState.ALL) -> int:
    return next(one.letter_id for one in ledger.letters.find(LetterFilter(), state) if one.url == url)


FITTING: list[tuple[LetterFilter, set[str]]] = [
    (LetterFilter(), {A, B, C}),
    (LetterFilter(codes=("PERMANENT_BLOCK", "TIMEOUT")), {A, B}),
    (LetterFilter(codes=("TIMEOUT",)), set()),
    (LetterFilter(days=(NEXT_DAY,)), {C}),
    (LetterFilter(since=NEXT_DAY), {C}),
    (LetterFilter(until=DAY), {A, B}),
    (LetterFilter(since=DAY, until=NEXT_DAY), {A, B, C}),
    (LetterFilter(labels={"topic": "prices"}), {A}),
    (LetterFilter(labels={"who.is it": "Ö'Neill"}), {A}),
    (LetterFilter(labels={"topic": "prices", "who.is it": "nobody"}), set()),
    (LetterFilter(url_part="pRICES"), {A}),
    (LetterFilter(url_part="t_u"), {B}),
    (LetterFilter(url_part="0%"), {C}),
    (LetterFilter(url_part="a_out"), set()),
    (LetterFilter(url_part="s%e"), set()),
    (LetterFilter(codes=("lost",), url_part="site.test"), {C}),
]


def test_letters_are_found_by_all_that_is_given(parked: Ledger) -> None:
    for which, urls in FITTING:
        assert {one.url for one in parked.letters.find(which)} == urls, which
        assert len(parked.letters.ids(which)) == sum(parked.letters.count(which).values()) == len(urls)
    assert [one.url for one in parked.letters.find(LetterFilter(), limit=1)] == [C], (
        "the newest is shown first"
    )
    first = min(parked.letters.ids(LetterFilter()))
    assert parked.letters.ids(LetterFilter(), limit=1) == [first], "what was parked first is taken first"


def test_the_reasons_of_a_day_come_with_their_newest_example(parked: Ledger) -> None:
    newest = parked.letters.find(LetterFilter(days=(DAY,)))[0]
    assert parked.letters.reasons(DAY) == [
        Reason("PERMANENT_BLOCK", 2, newest.url, "The site refuses the page.")
    ]
    assert parked.letters.reasons("2026-12-31") == []


def test_a_lineage_has_every_attempt_with_the_letter_that_it_ended_in(
    ledger: Ledger, clock: HandClock
) -> None:
    [job] = accept(ledger, A)
    clock.advance(30)
    finish(ledger, {job: RETRYABLE})
    clock.advance(60)
    [job] = accept_planned(ledger)
    finish(ledger, {job: PERMANENT})
    ledger.resubmissions.resubmit(ledger.resubmissions.parked_targets([_letter(ledger, A)]))
    found = ledger.letters.lineage(_letter(ledger, A))
    assert found is not None
    letter, lineage = found
    assert (letter.resolution, letter.attempts) == ("resubmitted", 2)
    assert [(one.attempt, one.state, one.letter) for one in lineage] == [
        (1, "superseded", None),
        (2, "superseded", letter),
        (3, "planned", None),
    ]
    assert [one.sent_at is None for one in lineage] == [False, False, True]
    assert ledger.letters.lineage(999) is None
    assert ledger.letters.unknown([letter.letter_id, 999, 998, 999]) == [999, 998]


def test_what_is_discarded_stays_dead_with_its_note_and_counts_no_more(
    parked: Ledger, clock: HandClock
) -> None:
    revision = parked.progress.revision(DAY)
    assert parked.letters.discard([_letter(parked, A), 999], "Gone for good.") == 1
    [letter] = parked.letters.find(LetterFilter(), LetterState.DISCARDED)
    assert (letter.url, letter.resolved_at, letter.note) == (A, clock.now, "Gone for good.")
    assert attempts(parked, A) == ["dead"]
    assert parked.progress.letters_by_code(DAY) == {"PERMANENT_BLOCK": 1}
    assert (parked.letters.discarded(DAY), parked.letters.discarded(NEXT_DAY)) == (1, 0)
    assert parked.progress.revision(DAY) == revision + 1, "the day is shown anew"
    assert parked.audit.check() == parked.audit.check(DAY) == parked.audit.check_complete(DAY) == []
    assert parked.letters.discard([letter.letter_id], "Once more.") == 0


def test_what_is_discarded_is_left_alone_by_a_resubmission_of_many(parked: Ledger) -> None:
    parked.letters.discard([_letter(parked, A)])
    which: Which
    for which in ("failed", "all"):
        assert [one.url for one in parked.resubmissions.settled_targets(DAY, which)] == [B]


def test_what_is_discarded_comes_back_by_its_id(parked: Ledger) -> None:
    letter = _letter(parked, A)
    parked.letters.discard([letter], "Hopeless.")
    [again] = parked.resubmissions.parked_targets([letter, letter, 999])
    assert parked.resubmissions.resubmit([again]) == 1
    [resolved] = [one for one in parked.letters.find(LetterFilter(), LetterState.RESOLVED)]
    assert (resolved.resolution, resolved.note) == ("resubmitted", "Hopeless.")
    assert parked.audit.check() == []
    finish(parked, dict.fromkeys(accept_planned(parked), PERMANENT))
    assert [one.attempts for one in parked.letters.find(LetterFilter(days=(DAY,))) if one.url == A] == [2]
    assert parked.letters.discarded(DAY) == 0
    assert parked.audit.check() == []


def test_a_page_that_comes_after_its_letter_was_discarded_is_stored_all_the_same(parked: Ledger) -> None:
    parked.letters.discard([_letter(parked, C)])
    finish(parked, {f"job of {C}": page()}, NEXT_DAY)
    assert attempts(parked, C, NEXT_DAY) == ["stored"]
    [letter] = parked.letters.find(LetterFilter(), LetterState.RESOLVED)
    assert letter.resolution == "stored"
    assert parked.audit.check() == []


def test_a_failure_that_comes_after_its_letter_was_discarded_ends_the_watch(parked: Ledger) -> None:
    parked.letters.discard([_letter(parked, C)])
    finish(parked, {f"job of {C}": PERMANENT}, NEXT_DAY)
    [letter] = parked.letters.find(LetterFilter(), LetterState.DISCARDED)
    assert letter.code == "PERMANENT_BLOCK"
    assert parked.audit.check() == []


def test_a_resolved_letter_has_nothing_to_retry_or_to_discard(parked: Ledger) -> None:
    letter = _letter(parked, B)
    parked.resubmissions.resubmit(parked.resubmissions.parked_targets([letter]))
    assert parked.resubmissions.parked_targets([letter]) == []
    assert parked.letters.discard([letter]) == 0


def test_a_target_has_one_letter_that_stands(parked: Ledger) -> None:
    parked.letters.discard([_letter(parked, A)])
    [row] = [one for one in rows(parked, select(dead_letters)) if one.url == A]
    values = {
        name: value for name, value in row._mapping.items() if name not in ("id", "resolved_at", "resolution")
    }
    with pytest.raises(IntegrityError), parked.letters.writing() as connection:
        connection.execute(dead_letters.insert().values(values))


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("UPDATE dead_letters SET resolution = 'stored' WHERE id = :id", "dead_has_letter"),
        ("UPDATE submissions SET state = 'planned' WHERE url = :url", "letter_has_dead"),
    ],
)
def test_the_audit_finds_a_discarded_letter_without_its_target(
    parked: Ledger, statement: str, rule: str
) -> None:
    letter = _letter(parked, A)
    parked.letters.discard([letter])
    values = {"id": letter, "url": A}
    used = {name: value for name, value in values.items() if f":{name}" in statement}
    assert execute(parked, statement, **used) == 1
    for day in (None, DAY):
        assert {violation.rule for violation in parked.audit.check(day)} == {rule}


def test_letters_of_another_feed_are_nobodys(parked: Ledger) -> None:
    execute(parked, "UPDATE dead_letters SET feed = 'other'")
    execute(parked, "UPDATE submissions SET feed = 'other'")
    assert parked.letters.find(LetterFilter(), LetterState.ALL) == []
    letter_id = rows(parked, select(dead_letters))[0].id
    assert parked.letters.lineage(letter_id) is None
    assert parked.letters.unknown([letter_id]) == [letter_id]
    assert parked.letters.discard([letter_id]) == 0
    assert parked.resubmissions.parked_targets([letter_id]) == []
    assert {row.state for row in rows(parked, select(submissions))} == {"dead"}
