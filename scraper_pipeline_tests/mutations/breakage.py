"""A breakage: a rule that is switched off by changing the source, and the tests that must notice."""

from dataclasses import dataclass
from pathlib import Path

MACHINE = "scraper_pipeline_tests/integration/ledger/state_machine/test_state_machine.py"


class TextIsGone(Exception):
    """The source no longer has the text that a breakage changes, or has it more than once."""


@dataclass(frozen=True)
class Edit:
    """An exact piece of a file's text, which stands there once, and what takes its place."""

    path: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        """The file's text with this change. Raises TextIsGone."""
        found = text.count(self.old)
        if found != 1:
            raise TextIsGone(f"{self.path} has this {found} times, not once:\n{self.old}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Breakage:
    """``tests`` are pytest's node ids; ``also_broken`` names what else had to go, since the rule is enforced twice."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...] = ()
    by_machine: bool = True
    also_broken: str = ""
    postgres: bool = False

    def changed_files(self, source: Path) -> dict[str, str]:
        """The texts of the files that it changes, by path below ``source``. Raises TextIsGone."""
        texts: dict[str, str] = {}
        for edit in self.edits:
            path = source / edit.path
            if not path.is_file():
                raise TextIsGone(f"There is no {edit.path}.")
            texts[edit.path] = edit.apply(texts.get(edit.path) or path.read_text(encoding="utf-8"))
        return texts
