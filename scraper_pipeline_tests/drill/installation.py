"""The files of an installation as docs/deploy.md puts them in place, with the addresses and passwords of a drill."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import trustme

from scraper_pipeline.local.processes import free_port
from scraper_pipeline.settings import project_folder
from scraper_pipeline_tests.drill.hosts import HERE, Host
from scraper_pipeline_tests.drill.units import DEPLOY, Folders, Unit, read_assignments, read_unit
from scraper_pipeline_tests.roles import Roles

RECEIVER_PATH = "/webhooks/geonode"
API_KEY = "drill"
_SPEAK_WITH_REDIS = ("code-server", "daemon", "webserver")
_ENOUGH_PAGES = "10000000"


@dataclass(frozen=True)
class Layout:
    """Which host the processes are on, and their ports: the front has all but what is on the back."""

    front: Host = HERE
    back: Host = HERE
    """The code server with the runs, and the second receiver."""
    ports: Mapping[str, int] = field(
        default_factory=lambda: {
            name: free_port()
            for name in ("webserver", "code-server", "receiver-1", "receiver-2", "metrics", "proxy", "tls")
        }
    )

    @property
    def has_hosts(self) -> bool:
        """Whether there are other hosts than this machine itself."""
        return self.front is not HERE

    def address(self, name: str) -> str:
        """Where one of them listens, as host and port."""
        if name in ("webserver", "metrics", "proxy"):  # who calls them is on the same host
            return f"{HERE.address}:{self.ports[name]}"
        host = self.back if name in ("code-server", "receiver-2") else self.front
        return f"{host.address}:{self.ports[name]}"


@dataclass(frozen=True)
class Installation:
    """One machine's files, or those that several machines have the same of."""

    folders: Folders
    layout: Layout
    roles: Roles

    def write(self, sandbox_url: str, settings: Mapping[str, str]) -> None:
        """Everything but the secrets of webhooks; ``settings`` win over those of `pipeline.env`."""
        folders = self.folders
        for folder in (folders.etc / "nginx", folders.etc / "tls", folders.var / "dagster", folders.receiver):
            folder.mkdir(parents=True)
        shutil.copy(DEPLOY / "dagster.yaml", folders.var / "dagster")
        shutil.copy(DEPLOY / "workspace.yaml", folders.etc)
        code_host, code_port = self.layout.address("code-server").split(":")
        self._write_env(
            "dagster",
            {
                "DAGSTER_POSTGRES_HOST": self.layout.front.address,
                "DAGSTER_POSTGRES_PORT": str(self.roles.server.port),
                "DAGSTER_CODE_SERVER_HOST": code_host,
                "DAGSTER_CODE_SERVER_PORT": code_port,
            },
        )
        self._write_env(
            "pipeline",
            {
                "GEONODE_SCRAPER_API_KEY": API_KEY,
                "GEONODE_SCRAPER_HOST": self._write_tls(sandbox_url)
                if self.layout.has_hosts
                else sandbox_url,
                "SCRAPER_SANDBOX_URL": sandbox_url,
                "SCRAPER_TARGETS": str(folders.etc / "targets" / "{date}.txt"),
                "SCRAPER_DAILY_PAGE_LIMIT": _ENOUGH_PAGES,
                "SCRAPER_MONTHLY_PAGE_LIMIT": _ENOUGH_PAGES,
                **settings,
            },
        )
        for name in ("receiver", "metrics", "migrate"):
            self._write_env(name, {})
        self._write_proxy()

    def _write_env(self, name: str, changes: Mapping[str, str]) -> None:
        text = self.folders.place((DEPLOY / "env" / f"{name}.env").read_text("utf-8"))
        for placeholder in ("DAGSTER", "OWNER", "PIPELINE", "RECEIVER", "METRICS"):
            text = text.replace(f"@PW_{placeholder}@", self.roles.password)
        text = text.replace(
            "127.0.0.1/ledger", f"{self.layout.front.address}:{self.roles.server.port}/ledger"
        )
        path = self.folders.etc / f"{name}.env"
        path.touch(0o600)
        path.write_text(
            "".join(f"{key}={value}\n" for key, value in {**read_assignments(text), **changes}.items())
        )

    def _write_proxy(self) -> None:
        """The configuration of nginx that is shipped: without TLS, on a port that needs no root."""
        etc, layout = self.folders.etc, self.layout
        text = self.folders.place((DEPLOY / "nginx.conf").read_text("utf-8"))
        lines = [line for line in text.splitlines() if not line.strip().startswith("ssl_")]
        text = "\n".join(lines).replace("listen 443 ssl", f"listen {layout.address('proxy')}")
        (etc / "tls" / "dagster.htpasswd").touch()
        upstreams = (DEPLOY / "nginx" / "upstreams.conf").read_text("utf-8")
        for port, name in {"8080": "receiver-1", "8081": "receiver-2", "3000": "webserver"}.items():
            upstreams = upstreams.replace(f"127.0.0.1:{port}", layout.address(name))
        (etc / "nginx" / "upstreams.conf").write_text(upstreams)
        (etc / "nginx.conf").write_text(
            f"daemon off;\npid {etc}/nginx.pid;\nerror_log {self.folders.root}/proxy-errors.log;\n"
            "worker_processes 1;\nevents { worker_connections 1024; }\n"
            f"http {{\naccess_log off;\n{_temporary_folders(self.folders.root)}{text}\n}}\n"
        )

    def _write_tls(self, sandbox_url: str) -> str:
        """Have the proxy serve the sandbox to other hosts, to whom the key is sent by HTTPS alone."""
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self._authority))
        pem = self.folders.etc / "tls" / "sandbox.pem"
        authority.issue_cert(self.layout.front.address).private_key_and_cert_chain_pem.write_to_path(str(pem))
        address = self.layout.address("tls")
        (self.folders.etc / "nginx" / "sandbox.conf").write_text(
            f"server {{\nlisten {address} ssl;\nssl_certificate {pem};\nssl_certificate_key {pem};\n"
            f"location / {{ proxy_pass {sandbox_url}; }}\n}}\n"
        )
        return f"https://{address}"

    @property
    def _authority(self) -> Path:
        return self.folders.etc / "tls" / "authority.pem"

    def unit(self, name: str, instance: str = "") -> Unit:
        """A service of deploy/ as it is started here."""
        speaks_with_redis = name in _SPEAK_WITH_REDIS and (self.folders.etc / "celery.env").exists()
        drop_ins = [DEPLOY / "celery" / "scraper-celery.conf"] if speaks_with_redis else []
        return read_unit(name, self.folders, self._base(), instance, drop_ins)

    @property
    def proxy(self) -> Unit:
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        return Unit((nginx, "-c", str(self.folders.etc / "nginx.conf")), self._base())

    @property
    def environ(self) -> dict[str, str]:
        """What the command has that operators type."""
        files = ("dagster.env", "pipeline.env")
        found = self._base()
        for file in files:
            found |= read_assignments((self.folders.etc / file).read_text("utf-8"))
        return found

    def _base(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TZ") if name in os.environ}
        trusted = {"SSL_CERT_FILE": str(self._authority)} if self.layout.has_hosts else {}
        return {**kept, **trusted, "PYTHONPATH": str(project_folder())}


def _temporary_folders(folder: Path) -> str:
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return "".join(f"{name}_temp_path {folder}/nginx-{name};\n" for name in names)
