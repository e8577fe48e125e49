"""What the operator sets is read once, checked before anything starts, and never shown where it is secret."""

from datetime import date
from pathlib import Path

import pytest
from pydantic import ValidationError

from scraper_pipeline.scraper_api import RetryPolicy
from scraper_pipeline.settings import (
    Settings,
    SettingsError,
    load_settings,
    project_folder,
    unknown_variables,
    variables,
)

SECRET = "hunter2"


def test_nothing_set_is_a_working_configuration() -> None:
    settings = load_settings({})
    assert settings.api_key is None
    assert settings.host == "https://scraper.geonode.io"
    assert settings.ledger_url.get_secret_value() == f"sqlite:///{project_folder()}/var/ledger.db"
    assert settings.targets == str(project_folder() / "targets.csv")
    assert settings.daily_page_limit is None
    assert settings.monthly_page_limit is None
    assert (settings.send_lease_seconds, settings.send_grace_seconds) == (60, 120)
    assert settings.drain_quiet_seconds == 20
    assert settings.start_date == date(2026, 1, 1)


def test_the_project_folder_is_the_checkout() -> None:
    assert (project_folder() / "pyproject.toml").is_file()


def test_an_installed_wheel_keeps_its_files_in_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "scraper_pipeline.settings.__file__", str(tmp_path / "site-packages" / "scraper_pipeline" / "x.py")
    )
    monkeypatch.chdir(tmp_path)
    assert project_folder() == tmp_path


def test_the_process_environment_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPER_MAX_ATTEMPTS", "7")
    assert load_settings().max_attempts == 7


def test_a_switch_is_true_or_false_and_nothing_else() -> None:
    assert load_settings({"SCRAPER_POLL": "false"}).poll is False
    with pytest.raises(SettingsError, match="SCRAPER_POLL takes true or false; it was 'sometimes'"):
        load_settings({"SCRAPER_POLL": "sometimes"})


def test_several_words_are_separated_by_commas_or_blanks() -> None:
    settings = load_settings(
        {
            "SCRAPER_SIGNATURE_SCHEMES": "hex, standard",
            "SCRAPER_WEBHOOK_JOB_ID_PATHS": "about.job data.job_id",
        }
    )
    assert settings.signature_schemes == ("hex", "standard")
    assert settings.webhook_job_id_paths == ("about.job", "data.job_id")
    with pytest.raises(SettingsError, match="SCRAPER_SIGNATURE_SCHEMES takes any of"):
        load_settings({"SCRAPER_SIGNATURE_SCHEMES": "md5"})


def test_a_given_mapping_is_read_instead_of_everything_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SCRAPER_MAX_ATTEMPTS", "7")
    monkeypatch.setenv("max_attempts", "7")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("SCRAPER_MAX_ATTEMPTS=8\nSCRAPER_CONCURRENCY=8\n")
    settings = load_settings({"SCRAPER_CONCURRENCY": "5"})
    assert (settings.max_attempts, settings.concurrency) == (3, 5)


@pytest.mark.parametrize("name", ["scraper_max_attempts", "max_attempts", "MAX_ATTEMPTS"])
def test_a_variable_counts_by_its_full_name_only(name: str) -> None:
    assert load_settings({name: "7"}).max_attempts == 3


def test_values_are_trimmed_and_an_empty_variable_counts_as_unset() -> None:
    settings = load_settings(
        {
            "GEONODE_SCRAPER_API_KEY": f" {SECRET}\n",
            "GEONODE_SCRAPER_HOST": " http://127.0.0.1:8080/ ",
            "SCRAPER_START_DATE": " 2026-02-01 ",
            "SCRAPER_DAILY_PAGE_LIMIT": "0",
            "SCRAPER_TARGETS": " /srv/list.txt ",
            "SCRAPER_MAX_ATTEMPTS": "",
            "SCRAPER_TIMEZONE": "  ",
        }
    )
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == SECRET
    assert settings.host == "http://127.0.0.1:8080"
    assert settings.start_date == date(2026, 2, 1)
    assert settings.daily_page_limit == 0
    assert settings.targets == "/srv/list.txt"
    assert settings.max_attempts == 3
    assert settings.timezone == "UTC"


def test_settings_cannot_be_changed_after_they_were_checked() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load_settings({}).max_attempts = 0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("postgres://u:p@h:5433/d", "postgresql+psycopg://u:p@h:5433/d"),
        ("postgresql://u:p@h/d?sslmode=require", "postgresql+psycopg://u:p@h/d?sslmode=require"),
        ("postgresql+psycopg://u:p%40ss@h/d", "postgresql+psycopg://u:p%40ss@h/d"),
        ("sqlite:///relative.db", "sqlite:///relative.db"),
        ("sqlite:////absolute/ledger.db", "sqlite:////absolute/ledger.db"),
    ],
)
def test_the_ledger_url_names_its_driver(given: str, used: str) -> None:
    assert load_settings({"SCRAPER_LEDGER_URL": given}).ledger_url.get_secret_value() == used


def test_the_ledger_location_shows_no_password() -> None:
    settings = load_settings({"SCRAPER_LEDGER_URL": f"postgresql://u:{SECRET}@h:5433/d?password={SECRET}"})
    assert settings.ledger_location == "postgresql+psycopg://u:***@h:5433/d"


def test_no_repr_shows_a_secret() -> None:
    settings = load_settings(
        {"GEONODE_SCRAPER_API_KEY": SECRET, "SCRAPER_LEDGER_URL": f"postgresql://u:{SECRET}@h/d"}
    )
    assert SECRET not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"


@pytest.mark.parametrize(
    ("variable", "value", "takes"),
    [
        ("SCRAPER_MAX_ATTEMPTS", "three", "takes a whole number"),
        ("SCRAPER_MAX_ATTEMPTS", "1.5", "takes a whole number"),
        ("SCRAPER_MAX_ATTEMPTS", "1\n2", "takes a whole number"),
        ("SCRAPER_MAX_ATTEMPTS", "0", "takes 1 or more"),
        ("SCRAPER_CONCURRENCY", "501", "takes 500 or less"),
        ("SCRAPER_DAILY_PAGE_LIMIT", "-1", "takes 0 or more"),
        ("SCRAPER_MONTHLY_PAGE_LIMIT", "-1", "takes 0 or more"),
        ("SCRAPER_MONTHLY_PAGE_LIMIT", "1e6", "takes a whole number"),
        ("SCRAPER_SEND_LEASE_SECONDS", "5", "takes more than 5"),
        ("SCRAPER_DRAIN_SECONDS", "0", "takes more than 0"),
        ("SCRAPER_DRAIN_SECONDS", "inf", "takes a number of seconds"),
        ("SCRAPER_DRAIN_SECONDS", "ten", "takes a number of seconds"),
        ("SCRAPER_SUBMISSION_MODE", "single", "takes 'auto', 'extract' or 'batch'"),
        ("SCRAPER_START_DATE", "2026-13-01", "takes a date such as 2026-01-31"),
        ("SCRAPER_START_DATE", "2026-01-01T05:00", "takes a date such as 2026-01-31"),
        ("SCRAPER_START_DATE", "yesterday", "takes a date such as 2026-01-31"),
        ("SCRAPER_TIMEZONE", "Mars/Olympus", "takes the name of a time zone such as Europe/Berlin"),
        ("SCRAPER_TIMEZONE", "America", "takes the name of a time zone such as Europe/Berlin"),
        ("SCRAPER_TIMEZONE", "../etc/passwd", "takes the name of a time zone such as Europe/Berlin"),
        ("GEONODE_SCRAPER_HOST", "scraper.geonode.io", "takes a URL such as https://scraper.geonode.io"),
        ("GEONODE_SCRAPER_HOST", "https://[::1", "takes a URL such as https://scraper.geonode.io"),
        ("GEONODE_SCRAPER_HOST", "https://h:x", "takes a URL such as https://scraper.geonode.io"),
        ("GEONODE_SCRAPER_HOST", "https://h/#a", "takes a URL without credentials, query or fragment"),
        ("SCRAPER_PAGES_URL", "S3 ://bucket", "takes a folder, or a URL such as s3://bucket/pages"),
        ("SCRAPER_PAGES_URL", "zip::s3://bucket", "takes a folder, or a URL such as s3://bucket/pages"),
        ("SCRAPER_SANDBOX_URL", "ftp://h", "takes a URL such as https://scraper.geonode.io"),
    ],
)
def test_an_unusable_value_is_refused_in_one_line_with_what_is_taken_instead(
    variable: str, value: str, takes: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({variable: value})
    assert str(caught.value) == f"{variable} {takes}; it was {value!r}"


def test_a_value_of_any_length_is_refused_in_a_short_line() -> None:
    with pytest.raises(
        SettingsError, match=r"^SCRAPER_MAX_BODY_BYTES takes a smaller number; it was '9{80}…'$"
    ):
        load_settings({"SCRAPER_MAX_BODY_BYTES": "9" * 5000})


@pytest.mark.parametrize(
    "host", ["http://scraper.geonode.io", "http://10.0.0.1", "http://localhost.example.com"]
)
def test_the_api_key_never_travels_unencrypted_to_another_machine(host: str) -> None:
    with pytest.raises(SettingsError, match=r"takes an https URL; http, .* only on this machine itself"):
        load_settings({"GEONODE_SCRAPER_HOST": host})


@pytest.mark.parametrize(
    "host", ["http://localhost:1", "http://127.0.0.1:1", "http://127.8.0.1", "http://[::1]:1"]
)
def test_a_sandbox_on_this_machine_needs_no_certificate(host: str) -> None:
    assert load_settings({"GEONODE_SCRAPER_HOST": host}).host == host


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GEONODE_SCRAPER_API_KEY", f"{SECRET} with blanks"),
        ("GEONODE_SCRAPER_API_KEY", f"{SECRET}é"),
        ("GEONODE_SCRAPER_API_KEY", f"{SECRET}\x00"),
        ("GEONODE_SCRAPER_HOST", f"https://me:{SECRET}@scraper.geonode.io"),
        ("SCRAPER_LEDGER_URL", SECRET),
        ("SCRAPER_LEDGER_URL", f"mysql://u:{SECRET}@h/d"),
        ("SCRAPER_LEDGER_URL", f"postgresql+psycopg2://u:{SECRET}@h/d"),
        ("SCRAPER_LEDGER_URL", f"postgresql://u:{SECRET}@h:port/d"),
        ("GEONODE_SCRAPER_HOST", f"https://scraper.geonode.io?key={SECRET}"),
        ("SCRAPER_PAGES_URL", f"s3://me:{SECRET}@bucket/pages"),
        ("SCRAPER_PAGES_URL", f"abfs://bucket/pages?sig={SECRET}"),
        ("SCRAPER_SANDBOX_URL", f"http://me:{SECRET}@127.0.0.1"),
    ],
)
def test_the_refusal_of_a_value_that_may_hold_a_secret_does_not_show_it(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{variable} takes .*not shown") as caught:
        load_settings({variable: value})
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("url", ["pages", "/srv/pages", "~/pages", "s3://bucket/pages", "file:///srv/pages"])
def test_pages_are_published_to_a_folder_or_a_url(url: str) -> None:
    assert load_settings({}).pages_url == f"{project_folder()}/var/pages"
    assert load_settings({"SCRAPER_PAGES_URL": f" {url}/ "}).pages_url.rstrip("/") == url


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_ledger_in_memory_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"SCRAPER_LEDGER_URL .* not shared between processes"):
        load_settings({"SCRAPER_LEDGER_URL": url})


def test_all_unusable_values_are_named_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"SCRAPER_MAX_ATTEMPTS": "0", "SCRAPER_TIMEZONE": "here"})
    assert "SCRAPER_MAX_ATTEMPTS" in str(caught.value)
    assert "SCRAPER_TIMEZONE" in str(caught.value)


def test_a_grace_that_ends_before_a_job_can_be_listed_is_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"SCRAPER_SEND_GRACE_SECONDS takes more than .* \(70\).*; it was 70"
    ):
        load_settings({"SCRAPER_SEND_GRACE_SECONDS": "70"})
    with pytest.raises(SettingsError, match="SCRAPER_SEND_GRACE_SECONDS"):
        load_settings({"SCRAPER_SEND_LEASE_SECONDS": "110"})
    assert load_settings({"SCRAPER_SEND_GRACE_SECONDS": "70.5"}).send_grace_seconds == 70.5


def test_a_lease_too_short_for_the_client_to_begin_a_request_is_refused() -> None:
    least = RetryPolicy().least_request_seconds
    with pytest.raises(SettingsError, match=rf"SCRAPER_SEND_LEASE_SECONDS takes more than {least:g};"):
        load_settings({"SCRAPER_SEND_LEASE_SECONDS": f"{least}"})
    assert load_settings({"SCRAPER_SEND_LEASE_SECONDS": f"{least + 0.5}"}).send_lease_seconds == least + 0.5


def test_a_limit_that_parks_submissions_before_they_can_be_looked_up_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"SCRAPER_UNRESOLVED_AFTER_SECONDS takes more than .* \(180\)"):
        load_settings({"SCRAPER_UNRESOLVED_AFTER_SECONDS": "180"})


def test_a_variable_nobody_reads_is_reported_with_the_name_that_was_meant() -> None:
    environ = {
        "SCRAPER_LEDGER_URI": "x",
        "GEONODE_SCRAPER_KEY": "x",
        "SCRAPER_PLUGIN_COLOUR": "x",
        "SCRAPER_TARGETS": "x",
        "PATH": "x",
    }
    assert unknown_variables(environ) == {
        "GEONODE_SCRAPER_KEY": "GEONODE_SCRAPER_API_KEY",
        "SCRAPER_LEDGER_URI": "SCRAPER_LEDGER_URL",
        "SCRAPER_PLUGIN_COLOUR": None,
    }


def test_every_variable_says_what_it_decides() -> None:
    assert all(description not in ("", "None") for description in variables().values())
    assert len(variables()) == len(Settings.model_fields)
    assert {"GEONODE_SCRAPER_API_KEY", "GEONODE_SCRAPER_HOST", "SCRAPER_LEDGER_URL"} <= set(variables())
