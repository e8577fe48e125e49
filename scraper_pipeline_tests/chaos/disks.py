"""A full disk: a small file system of one's own where mounting one is allowed, else a database that must not grow."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Engine, event

_BLOCK = b"\0" * (1024 * 1024)
_NO_LIMIT = 1_073_741_823


class Disk(Protocol):
    """Something that can be filled, and freed again."""

    kind: str

    def fill(self) -> None: ...
    def free(self) -> None: ...


class SmallFileSystem:
    """A tmpfs; all that is written to it fails with ENOSPC while a file takes what is left of it."""

    kind = "a full tmpfs"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while True:
                file.write(_BLOCK)

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


class PageLimit:
    """SQLite answers SQLITE_FULL itself, in every process that heeds the limit, while its file may not grow."""

    kind = "SQLite's max_page_count"

    def __init__(self, flag: Path) -> None:
        self._flag = flag

    def fill(self) -> None:
        self._flag.touch()

    def free(self) -> None:
        self._flag.unlink(missing_ok=True)


@contextlib.contextmanager
def small_file_system(folder: Path, mebibytes: int) -> Iterator[SmallFileSystem | None]:
    """Mount one on a new folder; None where that is not allowed."""
    folder.mkdir(mode=0o755)
    options = ["-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0755", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(["mount", *options], capture_output=True, check=False).returncode:  # noqa: S607
        yield None
        return
    try:
        yield SmallFileSystem(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607


def heed_page_limit(flag: Path) -> None:
    """Let no SQLite database of this process grow while the flag is there."""

    @event.listens_for(Engine, "begin")
    def limit(connection: Any) -> None:
        if connection.dialect.name != "sqlite":
            return
        pages = 1 if flag.exists() else _NO_LIMIT
        if connection.info.get("pages") != pages:
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
            connection.info["pages"] = pages
