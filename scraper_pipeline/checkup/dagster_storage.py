"""Whether the Postgres server takes connections that Dagster's storage is on: Dagster itself tries for minutes."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml

_SECONDS = 5.0
_PORT = 5432


def unreachable_storage(file: Path) -> str | None:
    """The host and port of a storage that nobody answers at; None where somebody does, or it cannot be told."""
    try:
        host, port = _address(yaml.safe_load(file.read_text("utf-8"))["storage"]["postgres"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError, sa.exc.ArgumentError):
        return None
    if not host or host.startswith("/"):  # a socket of this machine
        return None
    try:
        socket.create_connection((host, port), timeout=_SECONDS).close()
    except OSError as error:
        return f"{host}:{port} ({error.strerror or 'no answer in time'})"
    return None


def _address(postgres: Mapping[str, Any]) -> tuple[str, int]:
    if "postgres_url" in postgres:
        url = sa.make_url(_resolved(postgres["postgres_url"]))
        return url.host or "", url.port or _PORT
    database = postgres["postgres_db"]
    return _resolved(database["hostname"]), int(_resolved(database.get("port", _PORT)))


def _resolved(value: Any) -> str:
    """A value of the file, or that of the variable that it names."""
    return os.environ[value["env"]] if isinstance(value, Mapping) else str(value)
