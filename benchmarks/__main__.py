"""Every benchmark, one after the other, written to docs/performance.md: ``python -m benchmarks``, or ``make bench``.

`--only night storing` runs some of them and leaves the sections of the others as they are.
"""

import argparse
import importlib
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

BENCHMARKS = {
    "night": "A night",
    "fetching": "Fetching",
    "storing": "Storing",
    "memory": "Memory",
    "pacing": "The pace under a limit",
    "tick": "A tick of the sensor",
    "growth": "The ledger over the years",
    "retention": "A ledger whose old content is dropped",
    "receiver": "The receiver",
    "steady_stream": "From a job's end to its page",
}
_DOCUMENT = Path(__file__).parent.parent / "docs" / "performance.md"
_PACKAGES = ("dagster", "httpx", "aiohttp", "sqlalchemy", "psycopg")
_INTRODUCTION = """\
# Performance

For whoever asks what it costs, and beside what. Written by `make bench`: each figure stands beside a plain way of doing
the same, measured in the same run on the same machine. Compare the ratios, and measure again before you rely on a
figure by itself.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    failed = []
    sections = _sections()
    for name in parser.parse_args().only:
        print(f"== {name}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}"], stdout=subprocess.PIPE, text=True, check=False
        )
        print(done.stdout, flush=True)
        if done.stdout.strip():
            sections[BENCHMARKS[name]] = _section(name, done.stdout.strip())
        if done.returncode:
            failed.append(name)
    order = [title for title in BENCHMARKS.values() if title in sections]
    _DOCUMENT.write_text(
        _INTRODUCTION + "".join(f"\n## {title}\n\n{sections[title]}\n" for title in order), encoding="utf-8"
    )
    if failed:
        print(f"short of their targets, or failed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


def _sections() -> dict[str, str]:
    """What the document says so far, by title."""
    if not _DOCUMENT.exists():
        return {}
    parts = re.split(r"^## (.+)$", _DOCUMENT.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], (text.strip() for text in parts[1::2]), strict=True))


def _section(name: str, output: str) -> str:
    about = (importlib.import_module(f"benchmarks.{name}").__doc__ or "").split("\n\n")
    explained = "\n\n".join(paragraph.strip() for paragraph in about)
    shown = output if output.startswith("|") else f"```text\n{output}\n```"
    return f"{explained}\n\n{shown}\n\n{_machine()}"


def _machine() -> str:
    packages = ", ".join(f"{package} {version(package)}" for package in _PACKAGES)
    cores = os.cpu_count()
    return (
        f"Measured {datetime.now(UTC):%Y-%m-%d} on {cores} cores ({platform.machine()}), "
        f"Python {platform.python_version()}, {packages}."
    )


if __name__ == "__main__":
    sys.exit(main())
