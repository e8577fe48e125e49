"""The Dagster instances that we ship work with the releases that we lock, on both of their databases."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
import yaml

from scraper_pipeline.settings import load_settings, project_folder
from scraper_pipeline_tests.postgres import SUPERUSER, EphemeralPostgres

DEPLOY = project_folder() / "deploy"
LOCAL = project_folder() / "scraper_pipeline" / "local" / "dagster.yaml"
SHIPPED = {"local": LOCAL, "production": DEPLOY / "dagster.yaml"}


@dg.asset
def anything() -> int:
    return 1


@pytest.fixture
def dagster_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture(params=["local", pytest.param("production", marks=pytest.mark.postgres)])
def instance(
    request: pytest.FixtureRequest, dagster_home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dg.DagsterInstance]:
    shutil.copy(SHIPPED[request.param], dagster_home / "dagster.yaml")
    if request.param == "production":
        server: EphemeralPostgres = request.getfixturevalue("postgres_server")
        with server.database() as database:
            monkeypatch.setenv("DAGSTER_POSTGRES_HOST", "127.0.0.1")
            monkeypatch.setenv("DAGSTER_POSTGRES_PORT", str(server.port))
            monkeypatch.setenv("DAGSTER_POSTGRES_DB", database)
            monkeypatch.setenv("DAGSTER_POSTGRES_USER", SUPERUSER)
            monkeypatch.setenv("DAGSTER_POSTGRES_PASSWORD", server.password)
            with dg.DagsterInstance.get() as instance:
                yield instance
    else:
        with dg.DagsterInstance.get() as instance:
            yield instance


def test_a_run_on_a_shipped_instance_records_its_events(instance: dg.DagsterInstance) -> None:
    assert dg.materialize([anything], instance=instance).success
    assert instance.get_latest_materialization_event(dg.AssetKey("anything")) is not None


def test_a_shipped_instance_sends_no_telemetry_and_watches_its_runs(instance: dg.DagsterInstance) -> None:
    assert instance.telemetry_enabled is False
    assert instance.nux_enabled is False
    assert instance.run_monitoring_enabled is True


@pytest.mark.parametrize("name", SHIPPED)
def test_a_settlement_may_drain_well_within_the_longest_run_allowed(name: str) -> None:
    config = yaml.safe_load(SHIPPED[name].read_text())
    assert config["run_monitoring"]["max_runtime_seconds"] >= 2 * load_settings({}).drain_seconds
