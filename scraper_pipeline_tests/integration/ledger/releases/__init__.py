"""Ledgers that releases have filled, one file a release, for the releases after it to be upgraded from.

Before a release is tagged, its own code fills one, against a real sandbox:

    python -m scraper_pipeline_tests.integration.ledger.releases

A file is never written anew: what it holds is what that release's users have.
"""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class FilledLedger:
    """The rows of every table, in the types of Python, as a release left them, and the schema that it had."""

    release: str
    revision: str
    tables: Mapping[str, Sequence[Mapping[str, Any]]]

    def write(self) -> Path:
        path = FOLDER / f"{self.release}.json"
        document = {"release": self.release, "revision": self.revision, "tables": self.tables}
        path.write_text(json.dumps(document, default=_as_json, ensure_ascii=False, indent=1) + "\n")
        return path

    @classmethod
    def read(cls, path: Path) -> "FilledLedger":
        document = json.loads(path.read_text(), object_hook=_from_json)
        return cls(document["release"], document["revision"], document["tables"])


def releases() -> Iterable[Path]:
    """The files that there are, the oldest release first."""
    return sorted(FOLDER.glob("*.json"), key=lambda path: [int(part) for part in path.stem.split(".")])


def _as_json(value: object) -> dict[str, str]:
    if isinstance(value, datetime):
        return {"time": value.isoformat()}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    raise TypeError(f"no column of the ledger holds a {type(value).__name__}")


def _from_json(found: dict[str, Any]) -> Any:
    if found.keys() == {"time"}:
        return datetime.fromisoformat(found["time"])
    if found.keys() == {"bytes"}:
        return base64.b64decode(found["bytes"])
    return found
