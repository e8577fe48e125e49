"""The whole of production, up and tended: databases, sandbox, proxy, receivers, and Dagster's processes."""

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
from sqlalchemy.exc import InterfaceError, OperationalError

from scraper_pipeline.ledger import Ledger
from scraper_pipeline.local.dagster_ui import DagsterError
from scraper_pipeline_tests.chaos.databases import Maltreated
from scraper_pipeline_tests.chaos.service import Service as Sandbox
from scraper_pipeline_tests.chaos.service import service as sandbox_service
from scraper_pipeline_tests.drill.census import Census
from scraper_pipeline_tests.drill.hosts import Host
from scraper_pipeline_tests.drill.installation import RECEIVER_PATH, Installation, Layout
from scraper_pipeline_tests.drill.plan import DATABASE, RUN, Plan, Strike
from scraper_pipeline_tests.drill.services import Service
from scraper_pipeline_tests.drill.units import Folders, Unit
from scraper_pipeline_tests.end_to_end.driving import Ui, code_servers, kill, run_workers
from scraper_pipeline_tests.postgres import EphemeralPostgres
from scraper_pipeline_tests.roles import SCRIPTS, Roles

Show = Callable[[str], None]
AWAY = (OperationalError, InterfaceError, httpx.HTTPError, DagsterError)
_START_SECONDS = 180.0
_PLACES = ("--concurrency-limit", "2000")  # since jobs that never end keep theirs
# A client takes a refusal for the service's limit: one in a hundred, as in the chaos runs, would make a night of a day.
_FEWER_REFUSALS = {"rate_limit_429": [{"probability": 0.0005, "retry_after": 0.2}]}
_LAUNCHES = 5
_UNTIL_PLANNED = 1500.0  # settle runs go first, and one may drain for ten minutes


class DrillFailed(Exception):
    """The drill did not come to its end; the message says what was missing."""


@dataclass
class Production:
    """What is running, and what was done to it."""

    installation: Installation
    postgres: EphemeralPostgres
    sandbox: Sandbox
    ledger: Ledger
    ui: Ui
    show: Show
    services: dict[str, Service] = field(default_factory=dict)
    census: Census = field(default_factory=Census)
    away_seconds: list[float] = field(default_factory=list)
    runs_killed: int = 0
    launched_again: int = 0
    _given: bytes = b""

    @property
    def layout(self) -> Layout:
        return self.installation.layout

    def tend(self) -> None:
        """Do what service managers, and the unit that watches the secrets, would do by now."""
        for service in self.services.values():
            service.tend()
        self.give_secrets()
        self.census.count(self.services)

    def give_secrets(self) -> None:
        """As scraper-webhook-secrets.path: a new file of the pipeline's becomes the receivers' own."""
        source = self.installation.folders.var / "webhook-secrets.json"
        found = source.read_bytes() if source.exists() else b""
        if found != self._given:
            target = self.installation.folders.receiver / "webhook-secrets.json"
            new = target.with_suffix(".new")
            new.touch(0o400)
            new.write_bytes(found)
            new.replace(target)
            self._given = found

    def rain(self, *, with_endless_jobs: bool = True) -> None:
        """Order the steady faults of the chaos runs, but for most of the refusals.

        In a batch of a thousand there would always be a page that never ends, and no batch would.
        """
        self.sandbox.rain({**_FEWER_REFUSALS, **({} if with_endless_jobs else {"never_finish": False})})

    def tend_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tend()
            time.sleep(0.1)

    def wait_for(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Tend until it holds; an answer that does not come counts as no. Raises DrillFailed."""
        end = time.monotonic() + seconds
        while True:
            self.tend()
            with contextlib.suppress(*AWAY):
                if condition():
                    return
            if time.monotonic() > end:
                raise DrillFailed(f"waited {seconds:g} s in vain for {what}")
            time.sleep(0.2)

    def add(self, name: str, unit: Unit, host: Host | None = None) -> Service:
        """Start a service, to be tended from now on."""
        log = self.installation.folders.root / f"{name}.log"
        service = Service(name, unit, log, host or self.layout.front)
        self.services[name] = service
        service.start()
        return service

    def add_receiver(self, number: int) -> None:
        name = f"receiver-{number}"
        host = self.layout.back if number == 2 else self.layout.front
        unit = self.installation.unit("receiver@", str(self.layout.ports[name]))
        self.add(name, _listening_at(unit, host.address), host)

    def end(self) -> None:
        for name in reversed(self.services):
            self.services[name].stop()

    def strike(self, strike: Strike) -> None:
        """Make one strike, and tend until what was struck is back."""
        self.show(f"{strike.how.name} to {strike.name}")
        if strike.name == DATABASE:
            began = time.monotonic()
            Maltreated("", None, self.postgres).go_away(strike.seconds, strike.how.name)
            self.away_seconds.append(time.monotonic() - began)
        elif strike.name == RUN:
            self.kill_a_run()
        else:
            self._strike_service(strike)
        if strike.name not in (DATABASE, RUN):
            self.wait_for(lambda: self.is_up(strike.name), 120, f"{strike.name} to be back")

    def _strike_service(self, strike: Strike) -> None:
        in_order = strike.how is signal.SIGTERM
        parts = [one for one in self.services.values() if in_order and strike.name in one.unit.part_of]
        for part in parts:
            part.stop()
        self.services[strike.name].strike(strike.how)
        for part in parts:
            part.start()

    def kill_a_run(self, seconds: float = 60.0) -> None:
        """SIGKILL to the process of a run, as soon as there is one."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tend()
            found = self.runs()
            if found:
                kill(found[0])
                self.runs_killed += 1
                return
            time.sleep(0.2)
        self.show("no run was met")

    def runs(self):
        """The processes of runs that the code server has started."""
        pid = self.services["code-server"].pid
        return [run for server in code_servers(pid) for run in run_workers(server)] if pid else []

    def is_up(self, name: str) -> bool:
        """Whether it answers where it should; the daemon, which listens nowhere, whether it runs."""
        if not self.services[name].pid:
            return False
        if name.startswith("receiver"):
            return self._status(name, "/readyz") == 200
        if name == "webserver":
            return self._status(name, "/server_info") == 200
        if name in ("code-server", "proxy", "metrics"):
            host, port = self.layout.address(name).split(":")
            try:
                socket.create_connection((host, int(port)), timeout=2).close()
            except OSError:
                return False
        return True

    def _status(self, name: str, path: str) -> int:
        url = f"http://{self.layout.address(name)}{path}"
        return httpx.get(url, trust_env=False, timeout=5).status_code

    def command(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`scraper-pipeline`, as an operator types it."""
        unit = self.installation.unit("migrate")
        found = subprocess.run(
            [unit.command[0], *words],
            env=self.installation.environ,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if check and found.returncode:
            raise DrillFailed(f"scraper-pipeline {' '.join(words)} failed: {found.stderr or found.stdout}")
        return found

    def migrate(self) -> None:
        """As the owner of the tables, and then the grants."""
        unit = self.installation.unit("migrate")
        found = subprocess.run(unit.command, env=unit.environ, capture_output=True, text=True, timeout=600)
        if found.returncode:
            raise DrillFailed(f"the migration failed: {found.stderr}")
        self.installation.roles.run("grants.sql")

    def register_webhooks(self) -> None:
        url = f"http://{self.layout.address('proxy')}{RECEIVER_PATH}"
        self.command("webhooks", "register", "--url", url)
        self.give_secrets()

    def begin(self, day: str, plan: Plan) -> None:
        """Launch submit_jobs for a day as in the UI, and again if the run ends before it has planned anything."""
        targets = len(set(plan.days[day]))
        for _ in range(_LAUNCHES):
            run_ids: list[str] = []
            self.wait_for(lambda: self._launch(day, run_ids), 180, f"{day} to be launched")  # noqa: B023
            self.show(f"launched submit_jobs for {day}")
            self.wait_for(
                lambda: self.ledger.progress.of(day).targets >= targets or self._has_failed(run_ids[-1]),  # noqa: B023
                _UNTIL_PLANNED,
                f"{day} to be planned",
            )
            if not self._has_failed(run_ids[-1]):
                return
            self.show(f"the run failed: {self.ui.failure_message(run_ids[-1])}")
            self.launched_again += 1
        raise DrillFailed(f"no run of submit_jobs came to plan {day}")

    def _launch(self, day: str, run_ids: list[str]) -> bool:
        run_ids.append(self.ui.launch("submit_jobs", day))
        return True

    def _has_failed(self, run_id: str) -> bool:
        return self.ui.run_status(run_id) == "FAILURE"


@contextlib.contextmanager
def production(
    folder: Path,
    plan: Plan,
    show: Show,
    *,
    layout: Layout | None = None,
    settings: Mapping[str, str] | None = None,
    network: str = "",
    with_webhooks: bool = True,
    sandbox_options: tuple[str, ...] = (),
    prepare: Callable[[Installation], object] = lambda installation: None,
    before: Callable[["Production"], object] = lambda found: None,
) -> Iterator[Production]:
    """All of it, up; ended when the context is left.

    ``prepare`` may change files before anything reads them, ``before`` start what the services need.
    """
    folder.chmod(0o755)  # other users' processes go through it
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(EphemeralPostgres(durable=True, prefers_system=True, network=network))
        roles = Roles(postgres, "ledger")
        _make_databases(roles)
        sandbox = stack.enter_context(sandbox_service(folder, plan.seed, (*_PLACES, *sandbox_options)))
        installation = Installation(Folders(folder), layout or Layout(), roles)
        days = {"SCRAPER_START_DATE": min(plan.days)}
        installation.write(sandbox.url, {**days, **(settings or {})})
        _write_lists(installation.folders.etc / "targets", plan, sandbox.url)
        prepare(installation)
        ui = Ui(f"http://{installation.layout.address('webserver')}")
        stack.callback(ui.close)
        found = Production(installation, postgres, sandbox, None, ui, show)  # type: ignore[arg-type]
        found.migrate()
        found.ledger = stack.enter_context(Ledger.open(roles.url("scraper_pipeline")))
        stack.callback(found.end)
        before(found)
        start(found, with_webhooks)
        yield found


def start(found: Production, with_webhooks: bool) -> None:
    """In the order of the units, and wait until all answer."""
    installation, ports = found.installation, found.layout.ports
    found.add("proxy", installation.proxy)
    found.add("metrics", _listening_on(installation.unit("metrics"), ports["metrics"]))
    found.add("code-server", installation.unit("code-server"), found.layout.back)
    if with_webhooks:
        found.register_webhooks()
        for number in (1, 2):
            found.add_receiver(number)
    found.wait_for(lambda: found.is_up("code-server"), _START_SECONDS, "the code server")
    found.add("daemon", installation.unit("daemon"))
    found.add("webserver", _listening_on(installation.unit("webserver"), ports["webserver"]))
    for name in found.services:
        found.wait_for(lambda name=name: found.is_up(name), _START_SECONDS, name)  # type: ignore[misc]
    found.wait_for(found.ui._find_repository, _START_SECONDS, "the project to be served")
    found.show("everything is up")


def _make_databases(roles: Roles) -> None:
    server = Roles(roles.server, "postgres", roles.password)
    for statement in (SCRIPTS / "databases.sql").read_text("utf-8").split(";"):
        if statement.strip():
            server.execute(statement)
    roles.make("dagster")


def _write_lists(folder: Path, plan: Plan, service_url: str) -> None:
    folder.mkdir()
    for day in plan.days:
        (folder / f"{day}.txt").write_text("".join(f"{url}\n" for url in plan.urls(day, service_url)))


def _listening_on(unit: Unit, port: int) -> Unit:
    return _with_option(unit, "--port", str(port))


def _listening_at(unit: Unit, address: str) -> Unit:
    return _with_option(unit, "--host", address)


def _with_option(unit: Unit, option: str, value: str) -> Unit:
    words = list(unit.command)
    words[words.index(option) + 1] = value
    return replace(unit, command=tuple(words))
