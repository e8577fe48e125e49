"""What a check says: how things stand, and what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Grade(StrEnum):
    """A ``warning`` can wait or may be meant so; with a ``problem`` something does not work."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One line of a check-up. No text of it holds a secret or page content."""

    subject: str
    grade: Grade
    said: str
    advice: str = ""
    to_set: Mapping[str, str] = field(default_factory=dict)
    """Environment variables by which the pipeline would fit what was found."""

    @property
    def is_problem(self) -> bool:
        return self.grade is Grade.PROBLEM


@dataclass(frozen=True)
class Subject:
    """Findings about one thing."""

    name: str

    def ok(self, said: str) -> Finding:
        return Finding(self.name, Grade.OK, said)

    def warning(self, said: str, advice: str) -> Finding:
        return Finding(self.name, Grade.WARNING, said, advice)

    def problem(self, said: str, advice: str) -> Finding:
        return Finding(self.name, Grade.PROBLEM, said, advice)

    def mismatch(self, said: str, to_set: Mapping[str, str]) -> Finding:
        """A problem that settings end."""
        advice = "Set " + " and ".join(f"{name}={value}" for name, value in to_set.items()) + "."
        return Finding(self.name, Grade.PROBLEM, said, advice, to_set)
