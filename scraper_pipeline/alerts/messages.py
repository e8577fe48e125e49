"""An alert, and the forms that it takes: JSON for any webhook, and a text for Slack."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pydantic import SecretStr
from sqlalchemy import make_url

from scraper_pipeline.settings import Settings

_LONGEST_MESSAGE = 500
_SHORTEST_SECRET = 4  # what is shorter is in every other word


class What(StrEnum):
    """What happened: a run failed, or a run that did not had checks that failed."""

    RUN_FAILED = "run_failed"
    CHECKS_FAILED = "checks_failed"


@dataclass(frozen=True)
class FailedCheck:
    """One check of one asset; ``severity`` is ERROR or WARN."""

    asset: str
    check: str
    severity: str
    description: str

    def __str__(self) -> str:
        return f"{self.asset}: {self.check} ({self.severity})" + (
            f": {self.description}" if self.description else ""
        )


@dataclass(frozen=True)
class Alert:
    """One thing to be told once; ``when`` is UTC. No secret and no page content is in it.

    Checks that a sensor reports belong to no run: ``run_id`` is None then.
    """

    what: What
    when: datetime
    message: str
    run_id: str | None = None
    job: str | None = None
    partition: str | None = None
    checks: tuple[FailedCheck, ...] = ()
    link: str | None = None

    @property
    def title(self) -> str:
        done = "failed" if self.what is What.RUN_FAILED else "has failed checks"
        of_day = f" for {self.partition}" if self.partition else ""
        return f"{self.job or 'delivery_log'}{of_day} {done}"

    def to_json(self) -> dict[str, Any]:
        """The body for a webhook."""
        return {
            "what": str(self.what),
            "when": self.when.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "run_id": self.run_id,
            "job": self.job,
            "partition": self.partition,
            "message": self.message,
            "checks": [asdict(check) for check in self.checks],
            "link": self.link,
        }

    def to_slack(self) -> dict[str, str]:
        """The body for an incoming webhook of Slack."""
        title = f"*<{self.link}|{_escaped(self.title)}>*" if self.link else f"*{_escaped(self.title)}*"
        return {"text": "\n".join([title, _escaped(self.message)])}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def one_line(text: str, settings: Settings, longest: int = _LONGEST_MESSAGE) -> str:
    """A text fit to leave the house: one line, cut, and without any secret of the settings."""
    for secret in _secrets(settings):
        text = text.replace(secret, "***")
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _secrets(settings: Settings) -> list[str]:
    found = [value.get_secret_value() for _, value in settings if isinstance(value, SecretStr)]
    password = make_url(settings.ledger_url.get_secret_value()).password
    named = {*found, *([str(password)] if password else [])}
    return sorted((one for one in named if len(one) >= _SHORTEST_SECRET), key=len, reverse=True)
