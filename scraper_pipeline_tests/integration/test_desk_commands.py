"""The dead-letter desk and the costs on the command line: what they show, what they change, and how they refuse."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click.testing
import pytest

from scraper_pipeline.cli import main
from scraper_pipeline.ledger import GivenUp, Ledger, LetterCode, LetterFilter
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    NEXT_DAY,
    PERMANENT,
    RETRYABLE,
    accept,
    accept_planned,
    attempts,
    finish,
    page,
    target,
)

A, B, C = (f"https://site.test/{name}" for name in ("a", "b", "[/c]"))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer(SandboxConfig(min_delay=0, max_delay=0)) as server:
        yield server


@pytest.fixture
def ledger(sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """Two blocked pages of one day, a job of the next that was given up and that the service does not know."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    for name, value in {
        "GEONODE_SCRAPER_API_KEY": "key-5c0ffee5ecre7",
        "GEONODE_SCRAPER_HOST": sandbox.url,
        "SCRAPER_LEDGER_URL": url,
    }.items():
        monkeypatch.setenv(name, value)
    with Ledger.open(url) as ledger:
        ledger.submissions.plan(DAY, [target(A, topic="prices"), target(B, topic="[/company]")])
        finish(ledger, dict.fromkeys(accept_planned(ledger), PERMANENT))
        [job] = accept(ledger, C, day=NEXT_DAY)
        finish(ledger, {job: GivenUp(LetterCode.LOST, "Gone.")}, NEXT_DAY)
        yield ledger


def _run(*arguments: str, code: int = 0, answer: str | None = None) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(main, list(arguments), input=answer)
    assert result.exit_code == code, result.output
    return result


def _desk(*arguments: str, code: int = 0, answer: str | None = None) -> str:
    return _run("dead-letters", *arguments, code=code, answer=answer).output


def _as_json(*arguments: str) -> Any:
    return json.loads(_run(*arguments, "--json").stdout)


def test_letters_are_listed_with_their_number_by_code(ledger: Ledger) -> None:
    listed = _as_json("dead-letters", "list")
    assert (listed["total"], listed["by_code"]) == (3, {"PERMANENT_BLOCK": 2, "lost": 1})
    assert [(one["url"], one["day"]) for one in listed["letters"]] == [(C, NEXT_DAY), (B, DAY), (A, DAY)]
    assert C in _desk("list")
    said = _desk("list", "--code", "PERMANENT_BLOCK", "--limit", "1")
    assert "2 letters: 2 PERMANENT_BLOCK" in said
    assert "1 more are not shown" in said
    for option in (("--label", "topic=prices"), ("--url", "TEST/A"), ("--day", DAY, "--url", "/a")):
        assert [one["url"] for one in _as_json("dead-letters", "list", *option)["letters"]] == [A]
    assert _as_json("dead-letters", "list", "--since", NEXT_DAY, "--until", NEXT_DAY)["total"] == 1
    assert "There are none." in _desk("list", "--state", "discarded")


def test_a_letter_is_shown_with_its_lineage_and_without_any_page(ledger: Ledger) -> None:
    [job] = accept(ledger, "https://site.test/late", day="2026-03-03")
    finish(ledger, {job: RETRYABLE}, "2026-03-03")
    with ledger.submissions.writing() as connection:
        connection.exec_driver_sql("UPDATE submissions SET not_before = NULL")
    [job] = accept_planned(ledger, "2026-03-03")
    finish(ledger, {job: PERMANENT}, "2026-03-03")
    letter = ledger.letters.ids(LetterFilter(days=("2026-03-03",)))[0]
    shown = _as_json("dead-letters", "show", str(letter))
    assert [(one["attempt"], one["state"]) for one in shown["lineage"]] == [(1, "superseded"), (2, "dead")]
    assert [one["letter"] and one["letter"]["id"] for one in shown["lineage"]] == [None, letter]
    assert all(one["job_id"] and one["sent_at"] and one["settled_at"] for one in shown["lineage"])
    said = _desk("show", str(letter))
    assert "The site refuses the page." in said
    assert job in said
    assert "There is no dead letter 999" in _desk("show", "999", code=1)


def test_chosen_letters_are_planned_again_and_not_sent(ledger: Ledger, sandbox: SandboxServer) -> None:
    posts = sandbox.requests().get("POST /v1/extract", 0)
    first, second, lost = ledger.letters.ids(LetterFilter())
    said = _desk("retry", str(first), str(lost))
    assert "Planned again: 2 targets, for at most 2 pages." in said
    assert f"launch it for {DAY}, {NEXT_DAY}" in said
    assert attempts(ledger, A) == ["superseded", "planned"]
    assert sandbox.requests().get("POST /v1/extract", 0) == posts
    assert "Resolved before, since the target was tried again or stored: 1." in _desk("retry", str(first))
    assert _as_json("dead-letters", "retry", str(second))["planned"] == 1
    assert ledger.audit.check() == []


def test_filters_ask_before_anything_is_planned_and_name_the_cost(ledger: Ledger) -> None:
    said = _desk("retry", "--day", DAY, answer="n\n", code=1)
    assert "Plan 2 targets again, for at most 2 pages?" in said
    assert ledger.progress.of(DAY).planned == 0
    assert _as_json("dead-letters", "retry", "--day", DAY, "--max-pages", "1", "--yes") == {
        "planned": 1, "running": 0, "settled": 0, "pages": 1, "beyond": 1, "resolved": 0, "days": [DAY],
    }  # fmt: skip
    said = _desk(
        "retry", "--code", "lost", "--code", "permanent_block", "--max-pages", "1", answer="n\n", code=1
    )
    assert "Plan up to 2 targets again, for at most 1 page?" in said
    ledger.leases.take("held", DAY, "held", 60)
    said = _desk("retry", "--code", "PERMANENT_BLOCK", answer="y\n")
    assert f"`max_pages` of a run holds {DAY}" in said
    assert ledger.progress.of(DAY).planned == 2


def test_a_limit_that_leaves_nothing_is_named_by_whatever_plans_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = ledger.letters.ids(LetterFilter())
    monkeypatch.setenv("SCRAPER_DAILY_PAGE_LIMIT", "3")
    assert "within seconds" in _desk("retry", str(first))
    monkeypatch.setenv("SCRAPER_DAILY_PAGE_LIMIT", "1")
    said = _desk("retry", str(second))
    assert "SCRAPER_DAILY_PAGE_LIMIT is used up: until it has room again, nothing is sent." in said
    assert "within seconds" not in said


@pytest.mark.usefixtures("ledger")
def test_a_question_that_nobody_answers_says_what_answers_it() -> None:
    for command in ("retry", "discard"):
        assert "--yes" in _desk(command, "--day", DAY, code=1)
        assert "Aborted!" in _desk(command, "--day", DAY, answer="n\n", code=1)


@pytest.mark.usefixtures("ledger")
def test_codes_are_found_in_either_case_and_unknown_ones_are_named_with_those_that_there_are() -> None:
    assert _as_json("dead-letters", "list", "--code", "permanent_block", "--code", "LOST")["total"] == 3
    result = _run("dead-letters", "list", "--code", "auth_required")
    assert "There are none." in result.stdout
    assert "No letter has the code auth_required; there are PERMANENT_BLOCK, lost." in result.stderr


def test_discarded_letters_keep_their_note_and_come_back_by_id_alone(ledger: Ledger) -> None:
    assert "Discard 2 letters?" in _desk("discard", "--day", DAY, answer="n\n", code=1)
    assert "Discarded: 2 letters." in _desk("discard", "--day", DAY, "--note", "Moved away.", "--yes")
    listed = _as_json("dead-letters", "list", "--state", "discarded")["letters"]
    assert {one["note"] for one in listed} == {"Moved away."}
    status = _as_json("status")
    assert [(row["day"], row["reasons"], row["discarded"]) for row in status["days"]] == [
        (NEXT_DAY, {"lost": 1}, 0),
        (DAY, {}, 2),
    ]
    assert _as_json("dead-letters", "retry", "--day", DAY, "--yes")["planned"] == 0
    assert _as_json("dead-letters", "discard", str(listed[0]["id"])) == {"discarded": 0, "resolved": 1}
    assert _as_json("dead-letters", "retry", str(listed[0]["id"]))["planned"] == 1
    assert _as_json("audit")["violations"] == []


@pytest.mark.usefixtures("ledger")
def test_what_is_not_clear_is_refused() -> None:
    for arguments, code, said in (
        (("retry",), 2, "Say which letters"),
        (("discard",), 2, "Say which letters"),
        (("retry", "1", "--day", DAY), 2, "either ids or filters"),
        (("retry", "1", "999", "998"), 1, "There is no dead letter 999, 998: nothing was done."),
        (("discard", "99999999999999999999"), 2, "not in the range"),
        (("list", "--label", "topic"), 2, "--label takes NAME=VALUE"),
        (("list", "--day", "yesterday"), 2, "does not match the format"),
        (("list", "--since", NEXT_DAY, "--until", DAY), 2, "in this order"),
        (("discard", "1", "--note", "x" * 501), 2, "at most 500 characters"),
    ):
        assert said in _desk(*arguments, code=code), arguments


@pytest.mark.usefixtures("ledger")
def test_the_status_tells_in_one_line_for_all_days_what_brought_the_news() -> None:
    said = [line for line in _run("status").output.splitlines() if "came first by" in line]
    assert said == ["News of ended jobs came first by: poll 3."]


def test_costs_are_shown_beside_the_services_own(
    ledger: Ledger, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    [job] = accept(ledger, "https://site.test/good", day=NEXT_DAY)
    finish(ledger, {job: page("")}, NEXT_DAY)
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    monkeypatch.setenv("SCRAPER_MONTHLY_PAGE_LIMIT", "1")
    report = _as_json("costs")
    assert report["rows"] == [
        {
            "day": today, "attempts": 4, "failed": 3, "in_flight": 0, "pages_paid": 1, "pages_paid_empty": 1,
            "pages_charged": report["service"]["pages_charged"],
        }
    ]  # fmt: skip
    assert report["service"]["difference"] == report["service"]["pages_charged"] - 1
    assert report["service"]["may_explain"]["given_up"] == 1
    assert (report["month"]["limit"], report["month"]["runs_out_on"]) == (1, today)
    by_topic = {row["topic"]: row["attempts"] for row in _as_json("costs", "--by", "label:topic")["rows"]}
    assert by_topic == {"(none)": 2, "[/company]": 1, "prices": 1}
    by_outcome = {row["outcome"]: row["attempts"] for row in _as_json("costs", "--by", "outcome")["rows"]}
    assert by_outcome == {"empty": 1, "given_up": 1, "parked": 2}
    assert [row["attempt"] for row in _as_json("costs", "--by", "attempt")["rows"]] == ["1"]
    assert [row["list"] for row in _as_json("costs", "--by", "list")["rows"]] == ["(none)"]
    assert "[/company]" in _run("costs", "--by", "label:topic").output
    said = _run("costs").output
    assert "given up, whose jobs may have ended after all" in said
    assert f"SCRAPER_MONTHLY_PAGE_LIMIT is used up on {today}." in said


def test_costs_are_told_without_the_services_where_it_does_not_tell_them(
    ledger: Ledger, sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.set_faults(unauthorized={"on": "statistics"})
    assert "The service does not tell its statistics: " in _run("costs").output
    sandbox.clear_faults()
    monkeypatch.delenv("GEONODE_SCRAPER_API_KEY")
    report = _as_json("costs", "--since", "2026-01-01", "--until", "2026-01-31")
    assert (report["rows"], report["service"]["pages_charged"]) == ([], None)
    assert "GEONODE_SCRAPER_API_KEY is not set" in report["service"]["untold_because"]
    assert "Nothing was sent in these days." in _run("costs", "--until", "2026-01-31").output


@pytest.mark.usefixtures("ledger")
def test_costs_of_what_is_not_clear_are_refused() -> None:
    for arguments, said in (
        (("--by", "week"), "--by takes day, list, account, outcome, attempt or label:NAME"),
        (("--by", "label:"), "--by takes"),
        (("--since", "2026-02-01", "--until", "2026-01-31"), "in this order"),
        (("--since", "2024-01-01", "--until", "2026-01-31"), "at most 366"),
    ):
        assert said in _run("costs", *arguments, code=2).output, arguments
