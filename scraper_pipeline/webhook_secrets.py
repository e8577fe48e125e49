"""The secrets that webhooks are signed with: a file that is replaced whole, and re-read when it changes."""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import SecretStr

Monotonic = Callable[[], float]
CHECK_SECONDS = 1.0  # how long a change of the file may go unnoticed while every signature matches
KEPT_AFTER_EXPIRY = timedelta(days=7)
DEFAULT_ACCOUNT = "default"


class WebhookSecretsError(Exception):
    """The secrets can't be read or written; the message says what to do, and never shows one."""


@dataclass(frozen=True)
class WebhookSecret:
    """A secret, the webhook that it belongs to, and whose that is; valid until ``expires_at`` (UTC), or for good."""

    secret: SecretStr
    webhook_id: str
    event_type: str
    created_at: datetime
    expires_at: datetime | None = None
    account: str = DEFAULT_ACCOUNT

    def is_valid(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at


class SecretsFile:
    """A JSON file of secrets, readable by its owner alone.

    A reader that finds it broken or gone keeps what it read last, and says so in `problem`. Writers wait for
    each other, and replace the file as a whole. Every time is aware.
    """

    def __init__(self, path: Path, *, monotonic: Monotonic = time.monotonic) -> None:
        self.path = path
        self.problem: str | None = None
        """Why the file could not be read when it was last tried, or None."""
        self._monotonic = monotonic
        self._entries: tuple[WebhookSecret, ...] = ()
        self._seen: object = None
        self._next_check = float("-inf")

    def __repr__(self) -> str:
        return f"SecretsFile({str(self.path)!r})"

    def valid(self, now: datetime) -> list[WebhookSecret]:
        """The secrets that are valid now; a change of the file shows within a second."""
        if self._monotonic() >= self._next_check:
            self.refresh()
        return [entry for entry in self._entries if entry.is_valid(now)]

    def refresh(self) -> bool:
        """Look at the file now; True if it has other secrets than before."""
        self._next_check = self._monotonic() + CHECK_SECONDS
        try:
            stat = self.path.stat()
            signature = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if signature == self._seen:
                return False
            entries = self.read()
        except (OSError, WebhookSecretsError) as error:
            self._seen = None
            self.problem = str(error) if isinstance(error, WebhookSecretsError) else self._unreadable(error)
            return False
        self._seen, self.problem = signature, None
        changed = entries != self._entries
        self._entries = entries
        return changed

    def read(self) -> tuple[WebhookSecret, ...]:
        """All secrets in the file now, expired ones too. Raises WebhookSecretsError."""
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise WebhookSecretsError(self._unreadable(error)) from None
        try:
            return tuple(_read_entry(entry) for entry in json.loads(content)["secrets"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # No detail: the exception may quote what it stumbled over, and that may be a secret.
            raise WebhookSecretsError(
                f"{self.path} is no file of webhook secrets: restore it, or remove it and rotate the webhooks' secrets."
            ) from None

    def add(self, entry: WebhookSecret) -> None:
        """Keep one more secret; the others stay valid. Long expired ones are dropped."""
        if _is_empty(entry.secret.get_secret_value()):
            raise WebhookSecretsError(f"The secret of webhook {entry.webhook_id} is empty: nothing was kept.")
        with self._replacing() as entries:
            oldest = entry.created_at - KEPT_AFTER_EXPIRY
            entries[:] = [e for e in entries if e.is_valid(oldest) and not _same(e, entry)]
            entries.append(entry)

    def expire_others(self, webhook_id: str, at: datetime) -> None:
        """Let all secrets of a webhook but its newest expire at a time, or when they would have earlier."""
        with self._replacing() as entries:
            # The newest is the last one that was added, whatever the clock said then.
            for place in [place for place, entry in enumerate(entries) if entry.webhook_id == webhook_id][
                :-1
            ]:
                expires_at = entries[place].expires_at
                entries[place] = replace(
                    entries[place], expires_at=at if expires_at is None else min(at, expires_at)
                )

    def remove(self, webhook_id: str) -> None:
        """Forget every secret of a webhook."""
        with self._replacing() as entries:
            entries[:] = [entry for entry in entries if entry.webhook_id != webhook_id]

    @contextmanager
    def _replacing(self) -> Iterator[list[WebhookSecret]]:
        """The entries, to be changed in place; what is there at the end replaces the file, under a lock."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise WebhookSecretsError(self._unwritable(error)) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # beside the file, which is another one after each replacement
            entries = list(self.read()) if self.path.exists() else []
            yield entries
            try:
                self._write(entries)
            except OSError as error:
                raise WebhookSecretsError(self._unwritable(error)) from None
        finally:
            os.close(lock)
        self.refresh()

    def _write(self, entries: Sequence[WebhookSecret]) -> None:
        document = json.dumps({"secrets": [_write_entry(entry) for entry in entries]}, indent=2) + "\n"
        part = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}.part")
        try:
            with open(
                os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8"
            ) as file:
                file.write(document)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        except BaseException:
            with suppress(OSError):
                part.unlink()  # it may hold secrets, whatever broke the writing off
            raise
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _unreadable(self, error: OSError) -> str:
        return (
            f"The webhooks' secrets at {self.path} can't be read ({error.strerror}): register the webhooks, "
            "or set GEONODE_WEBHOOK_SECRETS_FILE."
        )

    def _unwritable(self, error: OSError) -> str:
        return (
            f"The webhooks' secrets at {self.path} can't be written ({error.strerror}): "
            "make the folder writable, or set GEONODE_WEBHOOK_SECRETS_FILE."
        )


class KnownSecrets:
    """All secrets that a receiver accepts: a fixed one (of the environment, say) and those of a file.

    A fixed one counts as the default account's.
    """

    def __init__(self, *, fixed: Sequence[SecretStr] = (), file: SecretsFile | None = None) -> None:
        if any(_is_empty(secret.get_secret_value()) for secret in fixed):
            raise WebhookSecretsError(
                "The webhook secret is empty, which would accept a signature that anybody can make: "
                "set GEONODE_WEBHOOK_SECRET to the secret that the service showed, or unset it."
            )
        self._fixed = [(secret.get_secret_value().strip(), DEFAULT_ACCOUNT) for secret in fixed]
        self._file = file

    def __repr__(self) -> str:
        return f"KnownSecrets(fixed={len(self._fixed)}, file={self._file!r})"

    def valid(self, now: datetime) -> list[str]:
        """The secrets that are valid now."""
        return [secret for secret, _ in self.of_accounts(now)]

    def of_accounts(self, now: datetime) -> list[tuple[str, str]]:
        """The secrets that are valid now, each with the account whose webhook it belongs to."""
        if self._file is None:
            return self._fixed
        found = ((entry.secret.get_secret_value(), entry.account) for entry in self._file.valid(now))
        return [*self._fixed, *found]

    def refresh(self) -> bool:
        """Look for new secrets now; True if there are others than before."""
        return self._file is not None and self._file.refresh()

    @property
    def problem(self) -> str | None:
        return None if self._file is None else self._file.problem

    def require_one(self, now: datetime) -> None:
        """Raise WebhookSecretsError unless some secret is valid now."""
        if self.valid(now):
            return
        raise WebhookSecretsError(
            (f"{self.problem} " if self.problem else "")
            + "Without a webhook secret no delivery can be verified: register the webhooks with "
            "`scraper-pipeline webhooks register`, or set GEONODE_WEBHOOK_SECRET."
        )


def _is_empty(secret: str) -> bool:
    return not secret.strip().removeprefix("whsec_")


def _same(one: WebhookSecret, other: WebhookSecret) -> bool:
    return one.webhook_id == other.webhook_id and one.secret == other.secret


def _read_entry(entry: Any) -> WebhookSecret:
    secret = entry["secret"]
    if not isinstance(secret, str) or _is_empty(secret):
        raise ValueError("an empty secret")
    expires_at = entry.get("expires_at")
    return WebhookSecret(
        secret=SecretStr(secret),
        webhook_id=str(entry["webhook_id"]),
        event_type=str(entry["event_type"]),
        created_at=_read_time(entry["created_at"]),
        expires_at=None if expires_at is None else _read_time(expires_at),
        account=str(entry.get("account", DEFAULT_ACCOUNT)),
    )


def _write_entry(entry: WebhookSecret) -> dict[str, str | None]:
    return {
        "secret": entry.secret.get_secret_value(),
        "webhook_id": entry.webhook_id,
        "event_type": entry.event_type,
        "created_at": entry.created_at.isoformat(),
        "expires_at": None if entry.expires_at is None else entry.expires_at.isoformat(),
        "account": entry.account,
    }


def _read_time(text: str) -> datetime:
    time_read = datetime.fromisoformat(text)
    return time_read if time_read.tzinfo is not None else time_read.replace(tzinfo=UTC)
