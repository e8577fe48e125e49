"""The units of deploy/systemd, read as far as they say how a process is started and ended."""

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scraper_pipeline.settings import project_folder

DEPLOY = project_folder() / "deploy"
_PROGRAMS = "/opt/scraper-pipeline/bin"


@dataclass(frozen=True)
class Folders:
    """Where an installation's files are: below one folder, under the names that they have in production."""

    root: Path

    @property
    def etc(self) -> Path:
        return self.root / "etc"

    @property
    def var(self) -> Path:
        return self.root / "var"

    @property
    def receiver(self) -> Path:
        return self.root / "receiver"

    def place(self, text: str) -> str:
        """The same text with the paths of this installation, and the programs of this environment."""
        for there, here in {
            "/etc/scraper-pipeline": self.etc,
            "/etc/nginx/scraper": self.etc / "nginx",
            "/var/lib/scraper-pipeline": self.var,
            "/var/lib/scraper-receiver": self.receiver,
            _PROGRAMS: Path(sys.executable).parent,
        }.items():
            text = text.replace(there, str(here))
        return text


@dataclass(frozen=True)
class Unit:
    """How a process is started, and what its end is followed by; durations are in seconds."""

    command: tuple[str, ...]
    environ: Mapping[str, str]
    before: tuple[str, ...] = ()
    """What is run first, and may fail."""
    restart_after: float = 2.0
    stop_within: float = 20.0
    part_of: tuple[str, ...] = ()
    """The services with which it is restarted: stopped before them, started after them."""


def read_unit(
    name: str,
    folders: Folders,
    base: Mapping[str, str],
    instance: str = "",
    drop_ins: Sequence[Path] = (),
) -> Unit:
    """A service of deploy/systemd or deploy/celery in this installation; `base` is what systemd gives to all."""
    [path] = DEPLOY.glob(f"*/scraper-{name}.service")
    text = "\n".join(one.read_text("utf-8") for one in (path, *drop_ins))
    text = folders.place(text).replace("%i", instance)

    def values(key: str) -> list[str]:
        found: list[str] = re.findall(rf"^{key}=(.+)$", text, re.MULTILINE)
        return found

    environ = dict(base)
    for line in values("Environment"):
        environ |= read_assignments(line)
    for file in values("EnvironmentFile"):
        environ |= read_assignments(Path(file).read_text("utf-8"))

    def words(line: str) -> tuple[str, ...]:
        return tuple(shlex.split(re.sub(r"\$\{(\w+)\}", lambda found: environ[found[1]], line)))

    [before] = values("ExecStartPre") or [""]
    return Unit(
        words(values("ExecStart")[0]),
        environ,
        words(before.removeprefix("-")),
        float((values("RestartSec") or ["2"])[0]),
        float((values("TimeoutStopSec") or ["20"])[0]),
        tuple(re.findall(r"scraper-(\S+)\.service", " ".join(values("PartOf")))),
    )


def read_assignments(text: str) -> dict[str, str]:
    """The variables of an environment file."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {name: value.strip("'") for name, value in pairs}
