"""Applies a breakage to a copy of the source tree and runs the tests that must notice it."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from scraper_pipeline_tests.mutations.breakage import MACHINE, Breakage

SOURCE = Path(__file__).parents[2]
_COPIED = ("scraper_pipeline", "scraper_pipeline_tests", "pyproject.toml")
_LIMIT_SECONDS = 300
_FAILED = re.compile(r"^(?:FAILED|ERROR) \S*?::(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """Which test noticed, and after how many seconds; empty if none did."""

    test: str
    seconds: float
    output: str = ""


@dataclass(frozen=True)
class SourceTree:
    """A copy of the sources, in which a breakage can be applied for a while."""

    root: Path

    @classmethod
    @contextmanager
    def copied(cls) -> Iterator["SourceTree"]:
        with TemporaryDirectory(prefix="mutations-") as folder:
            for name in _COPIED:
                source, copy = SOURCE / name, Path(folder) / name
                if source.is_dir():
                    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
                else:
                    shutil.copy(source, copy)
            yield cls(Path(folder))

    @contextmanager
    def broken(self, breakage: Breakage) -> Iterator[None]:
        """Raises TextIsGone."""
        changed = breakage.changed_files(self.root)
        sound = {path: (self.root / path).read_text(encoding="utf-8") for path in changed}
        try:
            for path, text in changed.items():
                (self.root / path).write_text(text, encoding="utf-8")
            yield
        finally:
            for path, text in sound.items():
                (self.root / path).write_text(text, encoding="utf-8")

    def run(self, tests: Sequence[str], on_postgres: bool = False) -> Verdict:
        """Run these tests, up to the first that fails. Raises RuntimeError if pytest could not run them."""
        began = time.monotonic()
        try:
            done = self._pytest(tests, on_postgres)
        except subprocess.TimeoutExpired:
            return Verdict("", time.monotonic() - began)
        seconds = time.monotonic() - began
        if done.returncode not in (0, 1):
            raise RuntimeError(
                f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        failed = _FAILED.search(done.stdout)
        return Verdict(failed.group(1) if failed else "", seconds, done.stdout)

    def _pytest(self, tests: Sequence[str], on_postgres: bool) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", *tests,
             "-k", "postgres" if on_postgres else "not postgres"],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root), "STATE_MACHINE": "search"},
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
        )  # fmt: skip

    def run_machine(self) -> Verdict:
        return self.run([MACHINE])
