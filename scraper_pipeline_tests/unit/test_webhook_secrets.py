"""The secrets file: replaced whole, read anew when it changes, and never shown."""

import json
import os
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from scraper_pipeline.webhook_secrets import (
    CHECK_SECONDS,
    KnownSecrets,
    SecretsFile,
    WebhookSecret,
    WebhookSecretsError,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def entry(secret: str, webhook_id: str = "wh-1", created_at: datetime = NOW, **changes) -> WebhookSecret:
    return WebhookSecret(SecretStr(secret), webhook_id, "extract_completed", created_at, **changes)


def spelled(entries: list[WebhookSecret]) -> list[str]:
    return [one.secret.get_secret_value() for one in entries]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "var" / "webhook-secrets.json"


def test_what_is_added_is_read_back_whole(path: Path):
    one, other = entry("s-1"), entry("s-2", "wh-2", expires_at=NOW + timedelta(hours=1))
    SecretsFile(path).add(one)
    SecretsFile(path).add(other)
    assert SecretsFile(path).read() == (one, other)


def test_the_file_is_for_its_owner_alone_whatever_the_umask(path: Path):
    before = os.umask(0)
    try:
        SecretsFile(path).add(entry("s-1"))
    finally:
        os.umask(before)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {file.name for file in path.parent.iterdir()} == {path.name, f"{path.name}.lock"}


def test_a_secret_is_valid_until_it_expires(path: Path):
    file = SecretsFile(path)
    file.add(entry("for good"))
    file.add(entry("for a while", expires_at=NOW + timedelta(seconds=10)))
    assert spelled(file.valid(NOW)) == ["for good", "for a while"]
    assert spelled(file.valid(NOW + timedelta(seconds=10))) == ["for good"]


def test_in_a_rotation_both_secrets_are_valid_until_the_old_one_expires(path: Path):
    file = SecretsFile(path)
    file.add(entry("old"))
    file.add(entry("of another", "wh-2"))
    file.add(entry("new", created_at=NOW + timedelta(seconds=1)))
    file.expire_others("wh-1", NOW + timedelta(hours=1))
    assert set(spelled(file.valid(NOW))) == {"old", "new", "of another"}
    assert set(spelled(file.valid(NOW + timedelta(hours=1)))) == {"new", "of another"}


def test_expiring_again_never_prolongs_a_secret(path: Path):
    file = SecretsFile(path)
    file.add(entry("old"))
    file.add(entry("new", created_at=NOW + timedelta(seconds=1)))
    file.expire_others("wh-1", NOW + timedelta(hours=1))
    file.expire_others("wh-1", NOW + timedelta(hours=5))
    assert spelled(file.valid(NOW + timedelta(hours=2))) == ["new"]


def test_the_same_secret_is_kept_once(path: Path):
    file = SecretsFile(path)
    file.add(entry("s-1", expires_at=NOW + timedelta(hours=1)))
    file.add(entry("s-1"))
    assert file.read() == (entry("s-1"),)


def test_long_expired_secrets_are_dropped(path: Path):
    file = SecretsFile(path)
    file.add(entry("old", expires_at=NOW))
    file.add(entry("new", created_at=NOW + timedelta(days=8)))
    assert spelled(list(file.read())) == ["new"]


def test_a_removed_webhook_leaves_no_secret(path: Path):
    file = SecretsFile(path)
    file.add(entry("s-1"))
    file.add(entry("s-2", "wh-2"))
    file.remove("wh-1")
    assert "s-1" not in path.read_text()
    assert spelled(file.valid(NOW)) == ["s-2"]


@pytest.mark.parametrize("secret", ["", "  ", "whsec_"])
def test_an_empty_secret_is_never_kept_or_accepted(path: Path, secret: str):
    with pytest.raises(WebhookSecretsError, match="empty"):
        SecretsFile(path).add(entry(secret))
    assert not path.exists()
    with pytest.raises(WebhookSecretsError, match="GEONODE_WEBHOOK_SECRET"):
        KnownSecrets(fixed=[SecretStr(secret)])
    path.parent.mkdir()
    of_the_file = {
        "secret": secret,
        "webhook_id": "w",
        "event_type": "e",
        "created_at": "2026-01-01T00:00:00Z",
    }
    path.write_text(json.dumps({"secrets": [of_the_file]}))
    with pytest.raises(WebhookSecretsError):
        SecretsFile(path).read()


def test_a_change_shows_after_a_second_and_not_before_so_that_deliveries_need_no_disk(path: Path):
    seconds = 0.0
    reader = SecretsFile(path, monotonic=lambda: seconds)
    SecretsFile(path).add(entry("s-1"))
    assert spelled(reader.valid(NOW)) == ["s-1"]
    SecretsFile(path).add(entry("s-2"))
    assert spelled(reader.valid(NOW)) == ["s-1"]
    seconds = CHECK_SECONDS
    assert spelled(reader.valid(NOW)) == ["s-1", "s-2"]


def test_a_refresh_says_whether_there_is_anything_new(path: Path):
    reader = SecretsFile(path)
    assert not reader.refresh()
    SecretsFile(path).add(entry("s-1"))
    assert reader.refresh()
    assert not reader.refresh()
    os.utime(path)
    assert not reader.refresh()


def remove(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    path.write_text(path.read_text()[:50])


def write_something_else(path: Path) -> None:
    path.write_text('["s-1"]')


def write_an_entry_without_a_time(path: Path) -> None:
    path.write_text('{"secrets": [{"secret": "s-9", "webhook_id": "w", "event_type": "e"}]}')


def write_binary(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


@pytest.mark.parametrize(
    "spoil", [remove, truncate, write_something_else, write_an_entry_without_a_time, write_binary]
)
def test_a_broken_file_leaves_the_last_good_secrets_and_says_so(path: Path, spoil: Callable[[Path], None]):
    SecretsFile(path).add(entry("s-1"))
    reader = SecretsFile(path)
    assert reader.refresh()
    assert reader.problem is None
    good = path.read_bytes()
    spoil(path)
    assert not reader.refresh()
    assert reader.problem is not None
    assert str(path) in reader.problem
    assert "s-1" not in reader.problem
    assert "s-9" not in reader.problem
    assert spelled(reader.valid(NOW)) == ["s-1"]
    path.write_bytes(good)
    reader.refresh()
    assert reader.problem is None


def test_a_broken_file_is_not_overwritten(path: Path):
    path.parent.mkdir()
    path.write_text("{")
    with pytest.raises(WebhookSecretsError, match="restore it"):
        SecretsFile(path).add(entry("s-1"))
    assert path.read_text() == "{"


def test_without_any_secret_a_receiver_is_told_what_to_do(path: Path):
    with pytest.raises(WebhookSecretsError, match="webhooks register"):
        KnownSecrets().require_one(NOW)
    with pytest.raises(WebhookSecretsError, match=str(path)):
        KnownSecrets(file=SecretsFile(path)).require_one(NOW)
    KnownSecrets(fixed=[SecretStr("s-1")], file=SecretsFile(path)).require_one(NOW)


def test_a_blank_around_the_fixed_secret_is_no_part_of_it():
    assert KnownSecrets(fixed=[SecretStr("s-1\n")]).valid(NOW) == ["s-1"]


def test_no_secret_is_in_any_repr(path: Path):
    file = SecretsFile(path)
    file.add(entry("s-1"))
    for shown in (file, file.valid(NOW), KnownSecrets(fixed=[SecretStr("s-2")], file=file)):
        assert "s-1" not in repr(shown)
        assert "s-2" not in repr(shown)


def test_writers_at_once_lose_no_entry(path: Path):
    threads = [
        threading.Thread(target=SecretsFile(path).add, args=(entry(f"s-{n}", f"wh-{n}"),)) for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(SecretsFile(path).read()) == 20


def test_an_interrupted_write_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch):
    SecretsFile(path).add(entry("s-1"))

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(WebhookSecretsError, match="No space left"):
        SecretsFile(path).add(entry("s-2"))
    assert SecretsFile(path).read() == (entry("s-1"),)
    assert not list(path.parent.glob("*.part"))
