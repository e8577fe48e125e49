"""Where published files are kept: a folder of this machine, or anything that fsspec has a URL for.

A file is either the old one or the new one, for every reader and after any crash.
"""

import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from scraper_pipeline.publishing.errors import PublishingError

_DRAFT = ".draft"
_ABANDONED_SECONDS = 24 * 3600.0  # no draft is written to for that long


@dataclass(frozen=True)
class Draft:
    """A new file at ``path``, which takes the place of the old one when ``publish`` is called."""

    path: Path
    publish: Callable[[], None]


class Place(Protocol):
    """A base under which files have names such as ``day=2026-01-31/pages.parquet``."""

    def location(self, name: str) -> str:
        """The file's path or URL."""

    def drafting(self, name: str) -> AbstractContextManager[Draft]:
        """A context in which a file can be written anew; without ``publish`` nothing comes of it."""

    def opening(self, name: str) -> AbstractContextManager[BinaryIO | None]:
        """A context that gives the file for reading, or None if there is none."""

    def size(self, name: str) -> int:
        """The file's size in bytes."""


def open_place(base: str) -> Place:
    """The place of a path or URL. Raises PublishingError where nothing can be written to it."""
    scheme, found, path = base.partition("://")
    if not found:
        return Folder(Path(base).expanduser())
    return Folder(Path(path)) if scheme == "file" else _open_remote(base)


@dataclass(frozen=True)
class Folder:
    """A folder, made when the first file comes into it."""

    base: Path

    def location(self, name: str) -> str:
        return str(self.base / name)

    @contextmanager
    def drafting(self, name: str) -> Iterator[Draft]:
        path = (self.base / name).resolve()  # what a link leads to is replaced, and the link stays
        # Beside it, for a rename is not a copy.
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_DRAFT}")

        def publish() -> None:
            _sync(draft)
            draft.replace(path)
            _sync(path.parent)

        try:
            if path.exists() and not path.is_file():
                raise PublishingError(f"{path} is no file, and is not replaced by one")
            path.parent.mkdir(parents=True, exist_ok=True)
            _forget_abandoned_drafts(path)
            yield Draft(draft, publish)
        except OSError as error:
            raise PublishingError(f"{path} can't be written: {error.strerror or error}") from error
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)

    @contextmanager
    def opening(self, name: str) -> Iterator[BinaryIO | None]:
        try:
            file = (self.base / name).open("rb")
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise PublishingError(f"{self.base / name} can't be read: {error.strerror or error}") from error
        with file:
            yield file

    def size(self, name: str) -> int:
        return (self.base / name).stat().st_size


def _forget_abandoned_drafts(path: Path) -> None:
    """Remove what processes left behind that were killed while they wrote."""
    for draft in path.parent.glob(f".{path.name}.*{_DRAFT}"):
        with suppress(FileNotFoundError):  # somebody else has removed it
            if time.time() - draft.stat().st_mtime > _ABANDONED_SECONDS:
                draft.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_remote(base: str) -> "RemoteFolder":
    import fsspec

    try:
        filesystem, path = fsspec.url_to_fs(base)
    except ImportError as error:  # in the words of fsspec, which knows the package
        raise PublishingError(f"{base} needs another package: {error}") from error
    except Exception as error:  # a store's client has errors of its own, bound to no common class
        raise PublishingError(f"{base} can't be used: {_described(error)}") from error
    return RemoteFolder(base, filesystem, path)


@dataclass(frozen=True)
class RemoteFolder:
    """A prefix of an object store, where an object appears whole once its upload has ended."""

    base: str
    filesystem: Any
    path: str

    def location(self, name: str) -> str:
        return f"{self.base}/{name}"

    @contextmanager
    def drafting(self, name: str) -> Iterator[Draft]:
        with tempfile.TemporaryDirectory(prefix="scraper-pipeline-") as folder:
            draft = Path(folder) / Path(name).name

            def publish() -> None:
                with self._explained(name, "written"):
                    self.filesystem.put_file(str(draft), f"{self.path}/{name}")

            yield Draft(draft, publish)

    @contextmanager
    def opening(self, name: str) -> Iterator[BinaryIO | None]:
        with self._explained(name, "read"):
            try:
                file = self.filesystem.open(f"{self.path}/{name}", "rb")
            except FileNotFoundError:
                file = None
        if file is None:
            yield None
            return
        with file:
            yield file

    def size(self, name: str) -> int:
        with self._explained(name, "read"):
            return int(self.filesystem.size(f"{self.path}/{name}"))

    @contextmanager
    def _explained(self, name: str, done: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a store's client has errors of its own, bound to no common class
            raise PublishingError(f"{self.location(name)} can't be {done}: {_described(error)}") from error


def _described(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
