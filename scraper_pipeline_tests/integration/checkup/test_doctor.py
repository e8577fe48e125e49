"""The command ``doctor``: what it prints, what it ends with, and what it asks before a page is spent."""

import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import click.testing
import httpx
import pytest

from scraper_pipeline.cli import main
from scraper_pipeline.local.processes import free_port
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.settings import project_folder

KEY = "key-5c0ffee5ecre7"


@pytest.fixture(scope="module")
def server() -> Iterator[SandboxServer]:
    config = SandboxConfig(min_delay=0, max_delay=0, webhook_signature_header="X-Sig", listing_key="items")
    with SandboxServer(config) as server:
        yield server


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of Dagster as it is shipped, its databases made by the first look."""
    home = tmp_path_factory.mktemp("home")
    shutil.copy(project_folder() / "scraper_pipeline" / "local" / "dagster.yaml", home)
    return home


@pytest.fixture
def folder(
    server: SandboxServer, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Everything is well until a test says otherwise."""
    (tmp_path / "targets.txt").write_text(f"{server.url}/site/pages/1\n")
    for name, value in {
        "GEONODE_SCRAPER_API_KEY": KEY,
        "GEONODE_SCRAPER_HOST": server.url,
        "GEONODE_WEBHOOK_SECRETS_FILE": str(tmp_path / "secrets.json"),
        "SCRAPER_LEDGER_URL": f"sqlite:///{tmp_path / 'ledger.db'}",
        "SCRAPER_TARGETS": str(tmp_path / "targets.txt"),
        "DAGSTER_HOME": str(home),
    }.items():
        monkeypatch.setenv(name, value)
    yield tmp_path
    server.clear_faults()


def _run(*arguments: str, code: int, typed: str | None = None) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(main, ["doctor", *arguments], input=typed)
    assert result.exit_code == code, result.output
    assert KEY not in result.output
    return result


def _live(server: SandboxServer, *arguments: str) -> list[str]:
    return ["--live", "--url", f"{server.url}/site/pages/1", "--wait", "20", *arguments]


def test_what_is_well_ends_with_0_and_nothing_was_changed(folder: Path) -> None:
    before = sorted(folder.iterdir())
    report = json.loads(_run("--json", code=0).stdout)
    grades = {one["check"]: one["grade"] for one in report["findings"]}
    assert grades.pop("daemon") == "warning"
    assert set(grades.values()) == {"ok"}
    assert set(grades) == {
        "settings", "targets", "ledger", "service", "key", "clock", "webhook secrets", "dagster", "automation"
    }  # fmt: skip
    assert (report["problem"], report["warning"], report["set"]) == (0, 1, {})
    assert sorted(folder.iterdir()) == before


def test_a_problem_ends_with_1_and_says_what_to_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEONODE_SCRAPER_API_KEY")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SCRAPER_TARGETS", "[no].csv")
    shown = _run(code=1).stdout
    assert "2 problems, 1 warning," in shown
    assert "GEONODE_SCRAPER_API_KEY is not set" in shown
    assert "the dashboard shows" in shown
    assert "[no].csv" in shown


@pytest.mark.usefixtures("folder")
def test_a_webhook_that_is_gone_at_the_service_is_a_problem_until_it_is_removed() -> None:
    def told() -> list[tuple[str, str]]:
        found = json.loads(click.testing.CliRunner().invoke(main, ["doctor", "--json"]).stdout)["findings"]
        return [(one["grade"], one["found"]) for one in found if one["check"] == "webhooks"]

    assert told() == []
    url = f"http://127.0.0.1:{free_port()}/webhooks/geonode"
    made = click.testing.CliRunner().invoke(main, ["webhooks", "register", "--url", url, "--json"])
    ids = {one["event_type"]: one["webhook_id"] for one in json.loads(made.stdout)}
    assert told() == [("ok", f"{len(ids)} are registered; in the last hour 0 deliveries were taken.")]
    gone = ids["extract_completed"]
    with httpx.Client(
        base_url=os.environ["GEONODE_SCRAPER_HOST"], headers={"x-api-key": KEY}, timeout=60
    ) as service:
        service.delete(f"/v1/webhooks/{gone}").raise_for_status()
    assert told() == [("problem", f"The service no longer has the webhook {gone} (extract_completed).")]
    for command in (["remove", gone], ["remove"]):
        assert click.testing.CliRunner().invoke(main, ["webhooks", *command]).exit_code == 0
    assert told() == []


def test_settings_that_can_not_be_used_leave_dagster_to_be_looked_at(
    folder: Path, server: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_TIMEZONE", "Mars/Olympus")
    monkeypatch.setenv("SCRAPER_DRAIN_SECONDS", "soon")
    report = json.loads(_run("--json", *_live(server), code=1).stdout)
    assert [one["check"] for one in report["findings"]] == [
        "settings", "settings", "dagster", "daemon", "contract"
    ]  # fmt: skip
    assert "No page was spent" in report["findings"][-1]["found"]


def test_a_page_is_spent_only_after_a_yes(folder: Path, server: SandboxServer) -> None:
    paid = server.truth()["charged"]
    asked = _run(*_live(server), code=1, typed="n\n")
    assert f"{server.url}/site/pages/1" in asked.stderr
    assert "paid as one page" in asked.stderr
    assert server.truth()["charged"] == paid
    agreed = _run(*_live(server), code=0, typed="y\n")
    assert "Jobs are listed under `items`" in " ".join(agreed.stdout.split())
    assert server.truth()["charged"] == paid + 1


def test_what_to_set_is_printed_ready_to_be_copied(folder: Path, server: SandboxServer) -> None:
    port = free_port()
    address = ("--webhook-url", f"http://127.0.0.1:{port}/hook", "--listen", f"127.0.0.1:{port}", "--yes")
    shown = _run(*_live(server, *address), code=1).stdout
    assert "\nexport GEONODE_SIGNATURE_HEADER=X-Sig\n" in shown
    assert "1 problem," in shown


def test_an_address_that_is_taken_is_told_with_a_way_out(folder: Path, server: SandboxServer) -> None:
    paid = server.truth()["charged"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = _run(
            *_live(server, "--webhook-url", "http://127.0.0.1:9/", "--listen", address, "--yes"), code=1
        )
    assert f"Error: Cannot listen on {address}" in said.stderr
    assert "--listen" in said.stderr
    assert server.truth()["charged"] == paid


def test_sigterm_removes_the_webhook_first(folder: Path, server: SandboxServer) -> None:
    server.set_faults(never_finish=True)
    webhooks = f"{server.url}/v1/webhooks"
    port = free_port()

    def end_it_once_there_is_a_webhook() -> None:
        with httpx.Client(headers={"X-Api-Key": KEY}, trust_env=False, timeout=60) as http:
            while not http.get(webhooks).json()["items"]:
                time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    killer = threading.Thread(target=end_it_once_there_is_a_webhook)
    killer.start()
    address = ("--webhook-url", f"http://127.0.0.1:{port}/", "--listen", f"127.0.0.1:{port}", "--yes")
    assert "Aborted!" in _run(*_live(server, *address), code=1).stderr
    killer.join()
    left = httpx.get(webhooks, headers={"X-Api-Key": KEY}, trust_env=False, timeout=60)
    assert left.json()["items"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--webhook-url", "https://a.test/"), "--webhook-url goes with --live"),
        (("--live", "--listen", "8080"), "takes HOST:PORT, such as 127.0.0.1:8080"),
        (("--live", "--wait", "0"), "--wait"),
    ],
)
def test_a_wrong_call_ends_with_2(arguments: tuple[str, ...], said: str, folder: Path) -> None:
    assert said in _run(*arguments, code=2).stderr
