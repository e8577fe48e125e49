"""What the check of Dagster's home says of homes as they are shipped, bare, broken, and out of reach."""

import os
import shutil
from pathlib import Path

import pytest
import yaml

from scraper_pipeline.checkup.automation import Automatic, declared_automation
from scraper_pipeline.checkup.dagster_home import check_dagster
from scraper_pipeline.checkup.dagster_storage import unreachable_storage
from scraper_pipeline.checkup.findings import Finding
from scraper_pipeline.settings import project_folder
from scraper_pipeline_tests.postgres import SUPERUSER, EphemeralPostgres

PUMP = Automatic("job_status_sensor", is_on_by_default=True)


def _check(home: Path, *, is_chosen: bool = True) -> list[Finding]:
    return check_dagster(home, is_chosen=is_chosen, declared=[PUMP])


def _grades(found: list[Finding]) -> list[tuple[str, str]]:
    return [(one.subject, str(one.grade)) for one in found]


def _home_on_postgres(home: Path, port: int, password: str, database: str, scheme: str) -> Path:
    home.mkdir()
    database_of_dagster = {
        "hostname": "127.0.0.1",
        "port": port,
        "username": SUPERUSER,
        "password": password,
        "db_name": database,
        "scheme": scheme,
    }
    storage = {"storage": {"postgres": {"postgres_db": database_of_dagster}}}
    (home / "dagster.yaml").write_text(yaml.safe_dump(storage))
    return home


def test_a_home_as_it_is_shipped_is_well_and_its_daemon_never_ran(tmp_path: Path) -> None:
    shutil.copy(project_folder() / "scraper_pipeline" / "local" / "dagster.yaml", tmp_path)
    found = _check(tmp_path)
    assert _grades(found) == [("dagster", "ok"), ("daemon", "warning"), ("automation", "ok")]
    assert "PGCONNECT_TIMEOUT" not in os.environ


def test_a_bare_home_is_told_what_it_lacks(tmp_path: Path) -> None:
    said = [one.said for one in _check(tmp_path) if str(one.grade) == "warning"]
    for lack in (
        "no dagster.yaml",
        "Run monitoring is off",
        "Run retries are off",
        "telemetry is on",
        "never run",
    ):
        assert any(lack in one for one in said), lack


def test_a_home_that_is_not_there_is_a_problem_only_where_it_was_chosen(tmp_path: Path) -> None:
    home = tmp_path / "nowhere"
    assert _grades(_check(home)) == [("dagster", "problem")]
    assert _grades(_check(home, is_chosen=False)) == [("dagster", "warning")]
    assert _grades(_check(Path("var/dagster"))) == [("dagster", "problem")]
    assert not home.exists()


def test_a_file_that_dagster_refuses_is_told_without_its_values(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: true}\nrun_retries: {max_retries: hidden}\n")
    [found] = _check(tmp_path)
    assert found.is_problem
    assert "DagsterInvalidConfigError (root:run_retries:max_retries)" in found.said
    assert "hidden" not in found.said


def test_a_variable_that_the_file_needs_is_named(tmp_path: Path) -> None:
    shutil.copy(project_folder() / "deploy" / "dagster.yaml", tmp_path)
    [found] = _check(tmp_path)
    assert found.is_problem
    assert "DAGSTER_POSTGRES_" in found.said


def test_a_storage_that_nobody_answers_at_is_a_problem_without_its_password(tmp_path: Path) -> None:
    [found] = _check(_home_on_postgres(tmp_path / "home", 1, "hidden", "db", "postgresql+psycopg2"))
    assert found.is_problem
    assert "nobody at 127.0.0.1:1 (Connection refused)" in found.said
    assert "hidden" not in found.said


def test_a_storage_may_be_named_by_a_url_or_by_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORT_OF_THE_STORAGE", "1")
    monkeypatch.setenv("URL_OF_THE_STORAGE", "postgresql://root:hidden@127.0.0.1:1/db")
    file = tmp_path / "dagster.yaml"
    for given in (
        "postgres_db: {hostname: 127.0.0.1, port: {env: PORT_OF_THE_STORAGE}}",
        "postgres_url: {env: URL_OF_THE_STORAGE}",
    ):
        file.write_text(f"storage:\n  postgres:\n    {given}\n")
        assert unreachable_storage(file) == "127.0.0.1:1 (Connection refused)"
    for other in (
        "",
        "storage: {sqlite: {base_dir: here}}",
        "storage: {postgres: {postgres_url: {env: NOWHERE}}}",
        "{",
    ):
        file.write_text(other)
        assert unreachable_storage(file) is None


@pytest.mark.postgres
def test_a_storage_with_the_driver_that_fails_at_the_first_launch_is_a_problem(
    tmp_path: Path, postgres_server: EphemeralPostgres
) -> None:
    with postgres_server.database() as database:
        home = _home_on_postgres(
            tmp_path / "home", postgres_server.port, postgres_server.password, database, "postgresql"
        )
        found = _check(home)
    assert found[0].is_problem
    assert "postgresql+psycopg2" in found[0].advice


def test_what_the_project_declares_is_read_from_its_definitions() -> None:
    declared = {one.name: one.is_on_by_default for one in declared_automation()}
    assert declared["job_status_sensor"] is True
    assert declared["reconciliation_schedule"] is True
    assert declared["daily_submission_schedule"] is False
