"""What deploy/ ships fits the program: variables, commands, limits and addresses, as far as they can be read here."""

import re
import shlex
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import click
import click.testing
import dagster as dg
import pytest
import yaml

from scraper_pipeline.cli.receiver import receiver
from scraper_pipeline.receiver.config import ReceiverConfig
from scraper_pipeline.settings import load_settings, project_folder, unknown_variables, variables

DEPLOY = project_folder() / "deploy"
SHIPPED = sorted(
    path
    for path in DEPLOY.rglob("*")
    if path.is_file() and not {"secrets", "targets", "__pycache__"} & set(path.relative_to(DEPLOY).parts)
)
UNITS = [path for path in SHIPPED if path.suffix == ".service"]
# What Dagster reads beside the names in its own files, and what the proxy does.
_NOT_OURS = {"DAGSTER_HOME", "DAGSTER_UI_PASSWORD_HASH"}
# Programs of the system, and of a package that only its own variant installs.
_OTHER_PROGRAMS = {
    "/usr/bin/install",
    "/usr/bin/mv",
    "/usr/bin/timeout",
    "celery",
    "psql",
    "python",
    "sh",
    "sleep",
    "with-secrets",
}


def _documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text("utf-8")))


def _document(name: str) -> dict[str, Any]:
    [document] = _documents(name)
    assert isinstance(document, dict)
    return document


COMPOSE, VALUES = _document("compose.yaml"), _document("kubernetes/values.yaml")
MANIFESTS = [*_documents("kubernetes/receiver.yaml"), *_documents("kubernetes/migrate.yaml")]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from (*_strings(key), *_strings(one))
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
    elif isinstance(value, str):
        yield value


def _lists(value: Any, *keys: str) -> Iterator[list[str]]:
    """Every list below one of these keys, wherever it is."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key in keys and isinstance(one, list):
                yield [str(word) for word in one]
            yield from _lists(one, *keys)
    elif isinstance(value, list):
        for one in value:
            yield from _lists(one, *keys)


def _asked_for(*names: str) -> set[str]:
    """The variables that files of Dagster's ask for."""
    text = "".join((DEPLOY / name).read_text("utf-8") for name in names)
    return set(re.findall(r"\{env: (\w+)\}", text))


DAGSTERS = _asked_for("dagster.yaml", "workspace.yaml")
CELERYS = _asked_for("celery/dagster.yaml") - DAGSTERS


def _assignments(name: str) -> dict[str, str]:
    lines = (DEPLOY / name).read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_every_file_of_yaml_can_be_read() -> None:
    names = [path for path in SHIPPED if path.suffix in (".yaml", ".yml")]
    assert len(names) >= 7
    for path in names:
        assert all(_documents(str(path.relative_to(DEPLOY)))), path.name


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_variable_is_one_that_something_reads(path: Path) -> None:
    named = set(re.findall(r"\b(?:SCRAPER|GEONODE|DAGSTER)_[A-Z_]*[A-Z]\b", path.read_text("utf-8")))
    assert sorted(named - set(variables()) - DAGSTERS - CELERYS - _NOT_OURS) == []


@pytest.mark.parametrize("name", ["dagster.yaml", "celery/dagster.yaml"])
def test_dagster_takes_its_configuration(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the server that keeps the runs, and the launcher of a package that is not installed."""
    here = {key: value for key, value in _document(name).items() if key not in ("storage", "run_launcher")}
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(here))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert instance.run_monitoring_enabled
        assert instance.run_retries_enabled
        assert not instance.telemetry_enabled
        queue = instance.get_concurrency_config().run_queue_config
        assert queue is not None
        patience = queue.max_user_code_failure_retries * queue.user_code_failure_retry_delay
        assert patience >= 300, "a run whose turn comes while the code server is away would fail for good"


def test_celery_changes_where_runs_take_place_and_nothing_else() -> None:
    celery = _document("celery/dagster.yaml")
    launcher = celery.pop("run_launcher")
    assert celery == _document("dagster.yaml")
    assert launcher["config"]["config_source"]["task_track_started"] is True


def test_kubernetes_has_the_instance_of_production() -> None:
    production, more = _document("dagster.yaml"), VALUES["additionalInstanceConfig"]
    assert {name: more[name] for name in ("run_monitoring", "run_retries", "nux")} == {
        name: production[name] for name in ("run_monitoring", "run_retries", "nux")
    }
    concurrency, shown = production["concurrency"], VALUES["concurrency"]
    assert shown["runs"]["maxConcurrentRuns"] == concurrency["runs"]["max_concurrent_runs"]
    assert shown["pools"]["defaultLimit"] == concurrency["pools"]["default_limit"]
    assert shown["pools"]["granularity"] == concurrency["pools"]["granularity"]
    assert VALUES["telemetry"] == production["telemetry"]
    for name, camel in {
        "sensor": "sensor",
        "schedule": "schedule",
        "auto_materialize": "autoMaterialize",
    }.items():
        kept = production["retention"][name]["purge_after_days"]
        assert VALUES["retention"][camel]["purgeAfterDays"] == kept
    scheme = production["storage"]["postgres"]["postgres_db"]["scheme"]
    assert VALUES["postgresql"]["postgresqlScheme"] == scheme


def test_whatever_dagsters_files_ask_for_is_set_where_they_are_used() -> None:
    assert set(_assignments("env/dagster.env")) == DAGSTERS | {"DAGSTER_HOME"}
    assert set(_assignments("celery/celery.env")) == CELERYS
    for name in ("code-server", "daemon", "webserver"):
        service = COMPOSE["services"][name]
        secrets = {one if isinstance(one, str) else one["target"] for one in service["secrets"]}
        assert set(service["environment"]) | secrets >= DAGSTERS, name


def test_what_is_set_can_be_used() -> None:
    deployments = VALUES["dagster-user-deployments"]["deployments"]
    compose = COMPOSE["services"]
    for given in (
        *(_assignments(f"env/{name}.env") for name in ("pipeline", "receiver", "migrate")),
        *(compose[name]["environment"] for name in ("code-server", "receiver-1", "receiver-2")),
        *({one["name"]: one["value"] for one in deployment["env"]} for deployment in deployments),
    ):
        load_settings({**given})  # raises what is wrong
        assert unknown_variables(given) == {}


def test_the_receiver_is_given_nothing_of_the_pipelines() -> None:
    allowed = {"SCRAPER_LEDGER_URL", "GEONODE_WEBHOOK_SECRETS_FILE"}
    assert set(_assignments("env/receiver.env")) == allowed
    assert "scraper_receiver:" in _assignments("env/receiver.env")["SCRAPER_LEDGER_URL"]
    unit = (DEPLOY / "systemd" / "scraper-receiver@.service").read_text("utf-8")
    assert re.findall("^EnvironmentFile=(.+)$", unit, re.M) == ["/etc/scraper-pipeline/receiver.env"]
    assert COMPOSE["services"]["receiver-1"]["secrets"] == [
        {"source": "receiver_ledger_url", "target": "SCRAPER_LEDGER_URL"}
    ]


def _commands() -> Iterator[tuple[str, list[str]]]:
    """Every command that is started anywhere, and where."""
    for path in UNITS:
        for line in re.findall(r"^ExecStart\w*=[-+!@:]*(.+)$", path.read_text("utf-8"), re.MULTILINE):
            yield path.name, shlex.split(line.replace("/opt/scraper-pipeline/bin/", ""))
    for name, service in COMPOSE["services"].items():
        if name not in ("postgres", "grants", "proxy"):
            assert isinstance(service["command"], list)
            words = [str(word) for word in service["command"]]
            yield f"compose: {name}", words[words.index("--") + 1 :] if words[0] == "sh" else words
            if "healthcheck" in service:
                marker, *check = service["healthcheck"]["test"]
                assert marker == "CMD"
                yield f"compose: {name}", check[1:] if check[0] == "with-secrets" else check
    for manifest in MANIFESTS:
        for words in _lists(manifest, "args", "command"):
            yield f"kubernetes: {manifest['metadata']['name']}", words
    for deployment in VALUES["dagster-user-deployments"]["deployments"]:
        yield "kubernetes: values", ["dagster", "code-server", "start", *deployment["codeServerArgs"]]
    [command] = re.findall(r"^CMD (\[.+\])$", (DEPLOY / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    yield "Dockerfile", yaml.safe_load(command)


@pytest.mark.parametrize(
    "words", [pytest.param(words, id=f"{place}: {' '.join(words[:3])}") for place, words in _commands()]
)
def test_every_command_exists_with_its_options(words: list[str]) -> None:
    program, *arguments = words
    if program in _OTHER_PROGRAMS:
        return
    [script] = entry_points(group="console_scripts", name=program)
    module = import_module(script.module)
    command = getattr(module, "cli", None) or script.load()
    assert isinstance(command, click.Command)
    # Whatever asks for help is not carried out, but read as far as its options.
    result = click.testing.CliRunner().invoke(command, [*arguments, "--help"])
    assert result.exit_code == 0, result.output


def test_the_code_server_ends_what_the_last_one_left_behind_before_it_starts() -> None:
    unit = (DEPLOY / "systemd" / "scraper-code-server.service").read_text("utf-8")
    before, _, _ = unit.partition("\nExecStart=")
    assert before.endswith("\nExecStartPre=-/opt/scraper-pipeline/bin/scraper-pipeline end-lost-runs")
    script = COMPOSE["services"]["code-server"]["command"][2]
    assert script.startswith("scraper-pipeline end-lost-runs; exec ")


def test_the_daemon_launches_nothing_on_a_code_server_that_was_told_to_end() -> None:
    unit = (DEPLOY / "systemd" / "scraper-daemon.service").read_text("utf-8")
    [part_of] = re.findall(r"^PartOf=(.+)$", unit, re.M)
    [after] = re.findall(r"^After=(.+)$", unit, re.M)
    assert "scraper-code-server.service" in part_of.split()
    assert "scraper-code-server.service" in after.split(), "what starts after it is stopped before it"


def _proxies() -> dict[str, tuple[str, int]]:
    """The path that each proxy lets through, and the largest body in MiB."""
    nginx, caddy = ((DEPLOY / name).read_text("utf-8") for name in ("nginx.conf", "Caddyfile"))
    ingress = next(one for one in MANIFESTS if one["kind"] == "Ingress")
    [path] = ingress["spec"]["rules"][0]["http"]["paths"]
    size = ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
    found = {
        "nginx": (
            re.findall(r"location = (\S+) \{", nginx),
            re.findall(r"client_max_body_size (\d+)m;", nginx)[:1],
        ),
        "caddy": (re.findall(r"^\t\tpath (\S+)$", caddy, re.M), re.findall(r"max_size (\d+)MiB", caddy)),
        "ingress": ([path["path"]], re.findall(r"^(\d+)m$", size)),
    }
    return {name: (paths[0], int(sizes[0])) for name, (paths, sizes) in found.items()}


@pytest.mark.parametrize("name", ["nginx", "caddy", "ingress"])
def test_a_proxy_lets_through_what_the_receiver_takes_and_nothing_else(name: str) -> None:
    largest = next(option.default for option in receiver.params if option.name == "max_body_mib")
    assert _proxies()[name] == (ReceiverConfig().path, largest)


def test_nothing_is_published_beyond_loopback() -> None:
    published = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []
    unit = (DEPLOY / "systemd" / "scraper-webserver.service").read_text("utf-8")
    assert "--host 127.0.0.1 " in unit


def test_a_receiver_reaches_the_database_and_nothing_else() -> None:
    networks = {name: set(service["networks"]) for name, service in COMPOSE["services"].items()}
    for name in ("receiver-1", "receiver-2"):
        near = {other for other, theirs in networks.items() if theirs & networks[name]}
        assert near == {"receiver-1", "receiver-2", "postgres", "proxy"}
        assert all(COMPOSE["networks"][network] == {"internal": True} for network in networks[name])


def test_no_container_may_change_itself_or_gain_a_right() -> None:
    for name, service in COMPOSE["services"].items():
        assert service["read_only"] is True, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        if name != "postgres":  # whose image gives its data folder to its user
            assert service["cap_drop"] == ["ALL"], name


def test_every_file_of_secrets_is_one_that_the_script_makes() -> None:
    made = (DEPLOY / "compose-secrets.sh").read_text("utf-8")
    written = set(re.findall(r"> (secrets/\S+)$", made, re.MULTILINE))
    assert {secret["file"].removeprefix("./") for secret in COMPOSE["secrets"].values()} == written


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_every_unit_has_a_user_and_the_hardening(path: Path) -> None:
    assert path.name.startswith("scraper-")  # so that scraper-.service.d counts for it
    text = path.read_text("utf-8")
    assert (
        re.search(r"^(User=scraper(-receiver)?|DynamicUser=yes)$", text, re.M)
        or path.name == "scraper-webhook-secrets.service"
    )
    assert "PartOf=scraper.target" in text or "Type=oneshot" in text


def test_the_target_starts_every_unit_that_serves() -> None:
    target = (DEPLOY / "systemd" / "scraper.target").read_text("utf-8")
    serving = {path.name for path in UNITS if path.parent.name == "systemd"}
    serving -= {path.name for path in UNITS if "Type=oneshot" in path.read_text("utf-8")}
    secrets = {"scraper-webhook-secrets.path", "scraper-webhook-secrets.service"}
    wanted = set(" ".join(re.findall(r"^Wants=(.+)$", target, re.M)).split())
    assert secrets <= wanted
    wanted -= secrets
    assert {re.sub(r"@\d+", "@", name) for name in wanted} == serving


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_what_a_unit_starts_at_its_end_does_not_start_it_again(path: Path) -> None:
    """Seen with systemd 252: each start of the one is a start of the other, until both are given up."""
    for started in re.findall(
        r"(\S+?)@\d+\.service", " ".join(re.findall(r"^OnSuccess=(.+)$", path.read_text(), re.M))
    ):
        text = (DEPLOY / "systemd" / f"{started}@.service").read_text("utf-8")
        assert not re.search(rf"^(Wants|Requires|BindsTo|Upholds)=.*{re.escape(path.name)}", text, re.M)
