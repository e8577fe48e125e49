"""A local stack takes no port and no home that another one has, and leaves no process behind, whatever ends it."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from scraper_pipeline.local.dagster_ui import DagsterError
from scraper_pipeline.local.demo import run_demo
from scraper_pipeline.local.occupancy import occupying
from scraper_pipeline.local.processes import free_port
from scraper_pipeline.local.stack import local_stack

_PARENT = """
import os, signal, sys
from pathlib import Path
from scraper_pipeline.local.processes import ChildProcess, ended_by_signals

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever the tests themselves were started by, such as nohup
with ended_by_signals():
    with ChildProcess([sys.executable, "-c", "import time; time.sleep(60)"], os.environ, Path(sys.argv[1])) as child:
        print(child.pid, flush=True)
        child.wait()
"""


def test_a_busy_port_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(DagsterError, match=f"Port {port} .*--port"), local_stack(tmp_path, {}, port=port):
            pass
    assert not list(tmp_path.rglob("*.log"))


def test_a_home_in_use_is_refused_with_the_words_of_who_has_it(tmp_path: Path) -> None:
    url = "http://127.0.0.1:3000"
    with (
        occupying(tmp_path / "dagster", url),
        pytest.raises(DagsterError, match=f"process {os.getpid()}, whose UI is at {url}"),
        local_stack(tmp_path, {}, port=free_port()),
    ):
        pass
    assert not list(tmp_path.rglob("*.log"))
    with occupying(tmp_path / "dagster", url):
        pass  # free again


def test_a_demo_does_not_empty_the_folder_of_another(tmp_path: Path) -> None:
    with (
        occupying(tmp_path / "dagster", "http://127.0.0.1:3000"),
        pytest.raises(DagsterError, match="in use"),
    ):
        run_demo(tmp_path, 1, timeout=1, show=print, advance=print)
    assert (tmp_path / "dagster").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_child_outlives_a_parent_that_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PARENT, str(tmp_path / "child.log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(number)
        parent.wait(20)
    end = time.monotonic() + 30
    with suppress(psutil.NoSuchProcess):
        while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < end, "the child goes on"
            time.sleep(0.02)
