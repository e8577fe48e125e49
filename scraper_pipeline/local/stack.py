"""Everything on one machine: a sandbox of the service where no key is set, and Dagster with its daemon."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import httpx

from scraper_pipeline.local.dagster_ui import DagsterError, DagsterUi
from scraper_pipeline.local.occupancy import occupying, require_free_port
from scraper_pipeline.local.processes import ChildProcess, free_port

SANDBOX_KEY = "sandbox"
_START_SECONDS = 180.0
_WATCH_SECONDS = 5.0
_WORKSPACE = """\
load_from:
  - python_module:
      module_name: scraper_pipeline.definitions
      location_name: scraper_pipeline
"""


@dataclass(frozen=True)
class LocalStack:
    """What is running, where it writes, and the environment that it was given."""

    ui: DagsterUi
    dagster: ChildProcess
    sandbox_url: str | None
    environ: Mapping[str, str]


@contextmanager
def sandbox(folder: Path, options: tuple[str, ...] = ()) -> Iterator[str]:
    """A sandbox on a free port; yields its address."""
    ready = folder / "sandbox.address"
    ready.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "scraper_pipeline.sandbox",
        "--port",
        "0",
        "--ready-file",
        str(ready),
        *options,
    ]
    with ChildProcess(command, os.environ, folder / "sandbox.log") as process:
        end = time.monotonic() + _START_SECONDS
        while not (ready.exists() and ready.read_text().strip()):
            if not process.is_running or time.monotonic() > end:
                raise DagsterError(f"The sandbox did not start:\n{process.last_lines()}")
            time.sleep(0.05)
        yield ready.read_text().strip()


@contextmanager
def local_stack(
    folder: Path,
    environ: Mapping[str, str],
    *,
    port: int | None = None,
    with_sandbox: bool = True,
    sandbox_options: tuple[str, ...] = (),
) -> Iterator[LocalStack]:
    """Start it all below ``folder`` on loopback, wait until it is up, and end all of it afterwards.

    ``environ`` is added to this process's own; with the sandbox, it is the service that everything talks to.
    Raises DagsterError, before anything is started, where the port or the Dagster home is in use.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        given = {**os.environ, "DAGSTER_HOME": str(folder / "dagster"), **environ}
        home, port = Path(given["DAGSTER_HOME"]), port or free_port()
        url = f"http://127.0.0.1:{port}"
        stack.enter_context(occupying(home, url))
        require_free_port(port)  # else another Dagster would be taken for the one that is started here
        sandbox_url = None
        if with_sandbox:
            sandbox_url = stack.enter_context(sandbox(folder, sandbox_options))
            given |= {
                "GEONODE_SCRAPER_HOST": sandbox_url,
                "GEONODE_SCRAPER_API_KEY": SANDBOX_KEY,
                "GEONODE_SCRAPER_API_KEY_FILE": "",
                "SCRAPER_ACCOUNTS_FILE": "",
                "SCRAPER_SANDBOX_URL": sandbox_url,
                "SCRAPER_PAGES_URL": str(folder / "pages"),
            }
        if not (home / "dagster.yaml").exists():
            shutil.copy(str(files("scraper_pipeline.local") / "dagster.yaml"), home / "dagster.yaml")
        workspace = folder / "workspace.yaml"
        workspace.write_text(_WORKSPACE)
        command = [
            *(sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", str(port)),
            *("-w", str(workspace), "--log-level", "warning"),
        ]
        dagster = stack.enter_context(ChildProcess(command, given, folder / "dagster.log"))
        ui = DagsterUi(url)
        stack.callback(ui.close)
        ui.wait_until_loaded(dagster, _START_SECONDS)
        stack.enter_context(_supervision(ui.url))
        yield LocalStack(ui, dagster, sandbox_url, given)


@contextmanager
def _supervision(url: str) -> Iterator[None]:
    """Look every few seconds whether the project is still served, and have it loaded again when it is not."""
    done = threading.Event()

    def watch() -> None:
        ui = DagsterUi(url)
        while not done.wait(_WATCH_SECONDS):
            # while the webserver is busy or on its way down, there is nothing to be done here
            with suppress(DagsterError, httpx.HTTPError):
                ui.revive_project()
        ui.close()

    watcher = threading.Thread(target=watch, name="supervision", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join(timeout=_WATCH_SECONDS)
