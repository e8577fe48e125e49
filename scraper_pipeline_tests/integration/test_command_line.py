"""The command fails in one clear line, whatever is wrong, and exits 1."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import click.testing
import httpx
import pytest

from scraper_pipeline.cli import main
from scraper_pipeline.ledger import AcceptedSubmission, Ledger, Target
from scraper_pipeline.ledger.database import known_revisions
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.target_lists import read_target_list

KEY = "key-5c0ffee5ecre7"


@pytest.fixture
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer(SandboxConfig(min_delay=0, max_delay=0, fetch_timeout=60)) as server:
        yield server


@pytest.fixture(autouse=True)
def environ(sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Everything is well until a test says otherwise."""
    (tmp_path / "targets.txt").write_text(f"{sandbox.url}/site/pages/1\n{sandbox.url}/site/pages/2\n")
    for name, value in {
        "GEONODE_SCRAPER_API_KEY": KEY,
        "GEONODE_SCRAPER_HOST": sandbox.url,
        "SCRAPER_LEDGER_URL": f"sqlite:///{tmp_path / 'ledger.db'}",
        "SCRAPER_TARGETS": str(tmp_path / "targets.txt"),
    }.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def _run(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, list(arguments))


def _complaint(*arguments: str) -> str:
    """The one line with which a command fails."""
    result = _run(*arguments)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1, result.output
    assert KEY not in result.output
    return result.output


def test_a_page_is_extracted_and_printed(sandbox: SandboxServer) -> None:
    result = _run("extract", f"{sandbox.url}/site/pages/1")
    assert result.exit_code == 0
    assert len(result.stdout) > 200


@pytest.mark.parametrize(
    "command",
    [("extract",), ("webhooks", "register", "--url"), ("doctor", "--live", "--url"), ("audit", "--sandbox")],
)
def test_what_is_no_url_is_refused_before_anybody_is_asked(
    sandbox: SandboxServer, command: tuple[str, ...]
) -> None:
    result = _run(*command, "example.com/page")
    assert result.exit_code == 2
    assert "this is no http or https URL with a host" in result.stderr
    assert sum(count for call, count in sandbox.requests().items() if " /v1/" in call) == 0


def test_extracting_with_a_wrong_key_names_the_variable(sandbox: SandboxServer) -> None:
    sandbox.set_faults(unauthorized=True)
    said = _complaint("extract", f"{sandbox.url}/site/pages/1")
    assert "401" in said
    assert "GEONODE_SCRAPER_API_KEY" in said


def test_extracting_with_an_empty_balance_says_so(sandbox: SandboxServer) -> None:
    sandbox.set_faults(balance=0)
    said = _complaint("extract", f"{sandbox.url}/site/pages/1")
    assert "402" in said
    assert "balance" in said


def test_extracting_without_a_key_says_how_to_go_on(environ: pytest.MonkeyPatch) -> None:
    environ.delenv("GEONODE_SCRAPER_API_KEY")
    assert "GEONODE_SCRAPER_API_KEY is not set" in _complaint("extract", "http://127.0.0.1/")


def test_extracting_a_page_that_cannot_be_had_gives_the_services_reason(sandbox: SandboxServer) -> None:
    assert "PERMANENT_BLOCK" in _complaint("extract", f"{sandbox.url}/site/broken/1")


@pytest.mark.usefixtures("impatient_client")
def test_extracting_through_a_host_that_refuses_connections_names_what_failed(
    environ: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        environ.setenv("GEONODE_SCRAPER_HOST", f"http://127.0.0.1:{nobody.getsockname()[1]}")
        assert "could not connect" in _complaint("extract", "http://127.0.0.1/")


@pytest.mark.usefixtures("impatient_client")
def test_extracting_through_a_host_that_never_answers_ends(environ: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environ.setenv("GEONODE_SCRAPER_HOST", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "answer" in _complaint("extract", "http://127.0.0.1/")


def test_a_plan_shows_what_a_run_would_pay_and_changes_nothing(tmp_path: Path) -> None:
    report = json.loads(_run("plan", "--day", "2026-01-05", "--json").stdout)
    assert (report["targets"], report["to_submit"], report["most_pages_paid"]) == (2, 2, 2)
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        assert ledger.progress.of("2026-01-05").targets == 0


def test_a_plan_shows_what_the_limits_leave_and_what_would_stay_planned(
    environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environ.setenv("SCRAPER_DAILY_PAGE_LIMIT", "5")
    environ.setenv("SCRAPER_MONTHLY_PAGE_LIMIT", "1")
    report = json.loads(_run("plan", "--json").stdout)
    assert (report["pages_left_today"], report["pages_left_this_month"]) == (5, 1)
    assert report["pages_beyond_the_limits"] == 1
    said = _run("plan").stdout
    assert "5 pages are left today and 1 pages are left this month: 1 would stay planned." in said
    environ.delenv("SCRAPER_DAILY_PAGE_LIMIT")
    environ.delenv("SCRAPER_MONTHLY_PAGE_LIMIT")
    report = json.loads(_run("plan", "--json").stdout)
    assert (report["pages_left_today"], report["pages_left_this_month"]) == (None, None)
    assert report["pages_beyond_the_limits"] == 0


@pytest.mark.parametrize(
    ("mode", "requests"),
    [
        ("extract", {"extract": 1064, "batch": 0, "crawl": 1}),
        ("batch", {"extract": 3, "batch": 3, "crawl": 1}),
        ("auto", {"extract": 4, "batch": 2, "crawl": 1}),
    ],
)
def test_a_plan_counts_the_requests_of_each_kind(
    environ: pytest.MonkeyPatch, tmp_path: Path, mode: str, requests: dict[str, int]
) -> None:
    lines = ["url,render_js,timeout,kind,limit"]
    lines += [f"https://site.test/{number},,,," for number in range(1060)]
    lines += [f"https://site.test/{number},,5000,," for number in range(3)]
    lines += ["https://site.test/one,true,,,", "https://site.test/all,,,crawl,40"]
    (tmp_path / "targets.csv").write_text("\n".join(lines) + "\n")
    environ.setenv("SCRAPER_TARGETS", str(tmp_path / "targets.csv"))
    environ.setenv("SCRAPER_SUBMISSION_MODE", mode)
    report = json.loads(_run("plan", "--day", "2026-01-05", "--json").stdout)
    assert (report["requests"], report["most_pages_paid"]) == (requests, 1104)
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        targets = [one for one in read_target_list(tmp_path / "targets.csv") if isinstance(one, Target)]
        ledger.submissions.plan("2026-01-05", targets)
    again = json.loads(_run("plan", "--day", "2026-01-05", "--json").stdout)
    assert (again["new"], again["requests"], again["most_pages_paid"]) == (0, requests, 1104)


def test_words_that_are_no_number_and_no_list_are_answered_with_what_would_be() -> None:
    assert "the only one is default" in _complaint("plan", "--list", "shops")
    assert "'x' is not a valid integer.\n" in _run("status", "--days", "x").output


def test_a_plan_needs_neither_a_key_nor_the_service(environ: pytest.MonkeyPatch) -> None:
    environ.delenv("GEONODE_SCRAPER_API_KEY")
    assert _run("plan").exit_code == 0
    assert "GEONODE_SCRAPER_API_KEY" in _complaint("plan", "--live")


def test_a_live_plan_shows_the_places_that_the_account_has_free(sandbox: SandboxServer) -> None:
    report = json.loads(_run("plan", "--live", "--json").stdout)
    assert report["places"] == {"limit": 100, "in_use": 0, "free": 100}
    assert "The account has 100 of its 100 places free." in _run("plan", "--live").stdout
    sandbox.set_faults(unauthorized={"on": "usage"})
    assert "GEONODE_SCRAPER_API_KEY" in _complaint("plan", "--live")


@pytest.mark.usefixtures("impatient_client")
def test_a_plan_goes_without_the_places_where_the_service_does_not_tell_them(sandbox: SandboxServer) -> None:
    sandbox.set_faults(cut_before={"on": "usage"})
    result = _run("plan", "--live")
    assert result.exit_code == 0
    assert "does not tell" in result.stdout
    assert json.loads(_run("plan", "--live", "--json").stdout)["places"] is None


def test_planning_a_list_that_is_missing_names_it(environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environ.setenv("SCRAPER_TARGETS", str(tmp_path / "nowhere.csv"))
    assert "nowhere.csv" in _complaint("plan")


def test_planning_a_list_without_a_url_column_says_what_is_missing(
    environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "list.csv").write_text("address\nhttp://a.example/\n")
    environ.setenv("SCRAPER_TARGETS", str(tmp_path / "list.csv"))
    assert "no column `url`" in _complaint("plan")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SCRAPER_DRAIN_SECONDS", "soon"),
        ("SCRAPER_LEDGER_URL", "mysql://root:hidden@host/db"),
        ("SCRAPER_SEND_GRACE_SECONDS", "1"),
        ("SCRAPER_TIMEZONE", "Mars/Olympus"),
    ],
)
def test_a_wrong_setting_is_named_by_every_command(
    variable: str, value: str, environ: pytest.MonkeyPatch
) -> None:
    environ.setenv(variable, value)
    for command in ("plan", "status", "audit", "migrate"):
        said = _complaint(command)
        assert f"{variable} takes" in said
        assert "hidden" not in said


def test_a_ledger_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("this is no database, and it is long enough to be read as one" * 20)
    for command in ("plan", "status", "audit"):
        said = _complaint(command)
        assert "The ledger at sqlite" in said
        assert "SCRAPER_LEDGER_URL" in said


def test_an_audit_of_a_sandbox_that_does_not_answer_fails_in_a_line() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        said = _complaint("audit", "--sandbox", f"http://127.0.0.1:{nobody.getsockname()[1]}")
    assert "does not answer" in said


def test_an_audit_that_finds_something_exits_1_and_says_what(tmp_path: Path) -> None:
    assert _run("audit").exit_code == 0
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        ledger.submissions.plan("2026-01-05", [Target("target-1", "http://a.example/")])
        with ledger.engine.connect() as connection:
            connection.exec_driver_sql("UPDATE submissions SET state = 'stored', job_id = 'job-1'")
            connection.commit()
    result = _run("audit", "--json")
    assert result.exit_code == 1
    (violation,) = json.loads(result.stdout)["violations"]
    assert (violation["rule"], violation["target_id"]) == ("stored_has_result", "target-1")


def test_an_audit_with_a_sandbox_says_that_pages_are_still_on_their_way(
    sandbox: SandboxServer, tmp_path: Path
) -> None:
    url = f"{sandbox.url}/site/pages/1"
    headers = {"x-api-key": KEY}
    with httpx.Client(base_url=sandbox.url, headers=headers, trust_env=False, timeout=60) as service:
        job_id = (
            service.post("/v1/extract", json={"url": url, "processing_mode": "async"})
            .raise_for_status()
            .json()["job_id"]
        )
    sandbox.finish_job(job_id)
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        ledger.submissions.plan("2026-01-05", [Target("target-1", url)])
        [claimed] = ledger.submissions.claim("2026-01-05", 1, 60.0)
        ledger.submissions.record_accepted([AcceptedSubmission(claimed.request_id, job_id)], ledger.clock())
    result = _run("audit", "--sandbox", sandbox.url)
    assert result.exit_code == 1
    assert "paid_is_stored" in result.stdout
    assert "Targets are on their way" in result.stdout
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger, ledger.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE submissions SET state = 'stored'")
        connection.exec_driver_sql("UPDATE jobs SET next_look_at = NULL")
    assert "Targets are on their way" not in _run("audit", "--sandbox", sandbox.url).stdout


def test_an_audit_does_not_explain_a_lost_result_by_what_is_on_its_way(
    sandbox: SandboxServer, tmp_path: Path
) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        targets = [Target(f"target-{number}", f"http://{number}.example/") for number in (1, 2)]
        ledger.submissions.plan("2026-01-05", targets)
        with ledger.engine.begin() as connection:
            connection.exec_driver_sql(
                "UPDATE submissions SET state = 'stored', job_id = 'job-1' WHERE target_id = 'target-1'"
            )
    result = _run("audit", "--sandbox", sandbox.url)
    assert result.exit_code == 1
    assert "stored_has_result" in result.stdout
    assert "Targets are on their way" not in result.stdout


def test_a_migration_tells_the_revision_that_the_ledger_has_now(tmp_path: Path) -> None:
    assert "is up to date." in _run("migrate").stdout
    report = json.loads(_run("migrate", "--json").stdout)
    assert report == {"ledger": f"sqlite:///{tmp_path / 'ledger.db'}", "revision": known_revisions()[0]}


def test_an_audit_tells_how_far_it_is(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        ledger.audit.check(on_rule=lambda done, total: steps.append((done, total)))
    assert steps == [(done, len(steps)) for done in range(1, len(steps) + 1)]
    assert len(steps) > 5
    assert _run("audit").stderr == ""  # no bar where there is no terminal


def test_an_audit_of_an_empty_ledger_tells_that_it_is_empty() -> None:
    result = _run("audit")
    assert result.exit_code == 0
    assert "holds no day yet" in result.stdout


def test_the_status_of_an_empty_ledger_is_told_in_both_forms() -> None:
    said = _run("status").stdout
    assert "The ledger holds no day yet." in said
    assert "Nothing is on its way." in said
    assert json.loads(_run("status", "--json").stdout)["days"] == []


def test_a_variable_with_a_typing_error_is_pointed_out(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("SCRAPER_DRAIN_SECOND", "5")
    result = _run("status")
    assert result.exit_code == 0
    assert "did you mean SCRAPER_DRAIN_SECONDS?" in result.stderr
