"""What the check of the webhooks' secrets says, and never says."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import SecretStr

from scraper_pipeline.checkup.findings import Finding, Grade
from scraper_pipeline.checkup.kept_secrets import check_webhook_secrets
from scraper_pipeline.settings import load_settings
from scraper_pipeline.webhook_secrets import SecretsFile, WebhookSecret

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
SECRET = "whsec_5c0ffee5ecre7"


def _check(path: Path, **environ: str) -> list[Finding]:
    found = check_webhook_secrets(load_settings({"GEONODE_WEBHOOK_SECRETS_FILE": str(path), **environ}), NOW)
    assert SECRET not in repr(found)
    return found


def _keep(path: Path, webhook_id: str, expires_at: datetime | None = None, age: int = 1) -> None:
    made = NOW - timedelta(days=age)
    SecretsFile(path).add(
        WebhookSecret(SecretStr(SECRET + str(age)), webhook_id, "extract_completed", made, expires_at)
    )


def test_without_a_file_there_is_nothing_to_say(tmp_path: Path):
    assert [one.grade for one in _check(tmp_path / "secrets.json")] == [Grade.OK]


def test_without_a_file_and_without_polling_the_news_is_late(tmp_path: Path):
    [found] = _check(tmp_path / "secrets.json", SCRAPER_POLL="false")
    assert found.grade == Grade.WARNING
    assert "SCRAPER_POLL" in found.said


def test_an_old_secret_that_expires_beside_a_new_one_is_as_it_should_be(tmp_path: Path):
    path = tmp_path / "secrets.json"
    _keep(path, "w1", NOW + timedelta(hours=1), age=2)
    _keep(path, "w1")
    [found] = _check(path)
    assert (found.grade, found.said) == (Grade.OK, "2 secrets of 1 webhooks are valid.")


def test_a_webhook_whose_newest_secret_expires_is_named(tmp_path: Path):
    path = tmp_path / "secrets.json"
    _keep(path, "good")
    _keep(path, "soon", NOW + timedelta(hours=1))
    _keep(path, "gone", NOW - timedelta(hours=1))
    soon, gone = _check(path)
    assert (soon.grade, gone.grade) == (Grade.WARNING, Grade.PROBLEM)
    assert "webhook soon" in soon.said
    assert "webhook gone" in gone.said
    assert "webhooks register" in gone.advice


def test_a_file_that_others_can_read_is_a_problem_and_one_for_the_group_a_warning(tmp_path: Path):
    path = tmp_path / "secrets.json"
    _keep(path, "w1")
    for mode, grade in ((0o644, Grade.PROBLEM), (0o640, Grade.WARNING)):
        path.chmod(mode)
        assert [one.grade for one in _check(path)] == [Grade.OK, grade]


def test_a_broken_file_and_a_fixed_secret_are_told(tmp_path: Path):
    path = tmp_path / "secrets.json"
    path.write_text(f'{{"secrets": ["{SECRET}"')
    path.chmod(0o600)
    broken, fixed = _check(path, GEONODE_WEBHOOK_SECRET=SECRET)
    assert (broken.grade, fixed.grade) == (Grade.PROBLEM, Grade.WARNING)
    assert "GEONODE_WEBHOOK_SECRET" in fixed.said
