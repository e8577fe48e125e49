"""Every environment variable that the pipeline reads, in one place, checked before anything starts."""

import ipaddress
import os
import re
import zoneinfo
from collections.abc import Mapping
from datetime import date, time
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

import sqlalchemy as sa
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

_LONGEST_VALUE_SHOWN = 80
_SCHEMES = frozenset({"hex", "sha256=", "base64", "standard"})
# The client does not begin a POST with less time left (RetryPolicy.least_request_seconds): with a lease no longer
# than that, nothing would ever be sent.
_LEAST_REQUEST_SECONDS = 5
# The size of a day's pages is compared with that of the seven days before it.
LEAST_DAYS_KEPT = 8


class SettingsError(Exception):
    """Variables that cannot be used; each problem says which, what it takes and what it was (secrets excepted)."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def project_folder() -> Path:
    """The checkout that this package is run from, or the working directory where it was installed as a wheel."""
    checkout = Path(__file__).resolve().parent.parent
    return checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()


def _default_ledger_url() -> SecretStr:
    return SecretStr(f"sqlite:///{project_folder() / 'var' / 'ledger.db'}")


def as_service_url(value: str) -> str:
    """A base URL of the service as it is used. Raises ValueError, which says what it takes."""
    return _as_url(value, plain_http_only_on_loopback=True)


def _as_url(value: str, *, plain_http_only_on_loopback: bool = False) -> str:
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("takes a URL such as https://scraper.geonode.io") from None
    if parts.scheme not in ("http", "https") or not host or re.search(r"\s", value):
        raise ValueError("takes a URL such as https://scraper.geonode.io")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("takes a URL without credentials, query or fragment")
    if plain_http_only_on_loopback and parts.scheme == "http" and not _is_loopback(host):
        raise ValueError(
            "takes an https URL; http, which would show the API key, only on this machine itself"
        )
    return value.rstrip("/")


def _as_secret_url(value: SecretStr) -> SecretStr:
    # Whoever has it can post there: unlike other URLs it may hold credentials, and is never shown.
    text = value.get_secret_value()
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or re.search(r"\s", text):
        raise ValueError("takes a URL such as https://hooks.example.com/alerts")
    return value


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def as_api_key(value: SecretStr) -> SecretStr:
    """An API key that can be sent. Raises ValueError, which says what it takes and never shows it."""
    # It travels as an HTTP header, where anything else fails late, and may be quoted by the error.
    if not re.fullmatch(r"[!-~]+", value.get_secret_value()):
        raise ValueError("takes the key as the dashboard shows it, in ASCII and without blanks")
    return value


def _as_ledger_url(value: SecretStr) -> SecretStr:
    takes = "takes sqlite:///path/to/ledger.db or postgresql://user:password@host/database"
    try:
        url = sa.make_url(value.get_secret_value())
    except (sa.exc.ArgumentError, ValueError):
        raise ValueError(takes) from None
    if url.drivername in ("postgres", "postgresql"):
        # Without a driver, different releases of SQLAlchemy read it as different ones.
        url = url.set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite" and url.database in (None, "", ":memory:"):
        raise ValueError(f"{takes}; a database in memory is not shared between processes")
    if url.drivername not in ("sqlite", "postgresql+psycopg"):
        raise ValueError(f"{takes}; its driver is psycopg")
    return SecretStr(url.render_as_string(hide_password=False))


def _as_place(value: str) -> str:
    scheme, found, _ = value.partition("://")
    if not found:
        return value
    if not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) or "::" in value:
        raise ValueError("takes a folder, or a URL such as s3://bucket/pages")
    if re.search(r"[@?#]", value):
        raise ValueError(
            "takes a URL without credentials, query or fragment: the store's own variables hold the credentials"
        )
    return value.rstrip("/")


def _as_timezone(value: str) -> str:
    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("takes the name of a time zone such as Europe/Berlin") from None
    return value


def _trimmed(value: object) -> object:
    return value.strip() if isinstance(value, str) else value


def _variable(field: str) -> str:
    return f"SCRAPER_{field.upper()}"


def _as_words(value: object) -> object:
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


def _as_schemes(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value or set(value) - _SCHEMES:
        raise ValueError(f"takes any of {', '.join(sorted(_SCHEMES))}, separated by commas")
    return value


def _as_header(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9-]+", value):
        raise ValueError("takes the name of an HTTP header such as X-Webhook-Signature")
    return value


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_as_words)]  # or it would have to be JSON
Text = Annotated[str, BeforeValidator(_trimmed)]
Secret = Annotated[SecretStr, BeforeValidator(_trimmed)]
Seconds = Annotated[float, Field(ge=0, le=366 * 24 * 3600, allow_inf_nan=False)]
SomeSeconds = Annotated[Seconds, Field(gt=0)]


class Settings(BaseSettings):
    """What the operator decided, or the defaults; durations are in seconds. ``load_settings`` makes them."""

    model_config = SettingsConfigDict(
        frozen=True,
        alias_generator=_variable,
        case_sensitive=True,
        hide_input_in_errors=True,
        validate_default=False,
        validate_by_name=True,
        validate_by_alias=True,
    )

    api_key: Annotated[Secret, AfterValidator(as_api_key)] | None = Field(
        None, alias="GEONODE_SCRAPER_API_KEY", description="the key of the account that submits and pays"
    )
    api_key_file: Annotated[Path, BeforeValidator(_trimmed)] | None = Field(
        None,
        alias="GEONODE_SCRAPER_API_KEY_FILE",
        description="a file with that key and nothing else, read anew by each run, in its place",
    )
    accounts_file: Annotated[Path, BeforeValidator(_trimmed)] | None = Field(
        None, description="a file such as `accounts.yaml`, which names further accounts; unset is one account"
    )
    host: Annotated[Text, AfterValidator(as_service_url)] = Field(
        "https://scraper.geonode.io", alias="GEONODE_SCRAPER_HOST", description="the service's base URL"
    )
    ledger_url: Annotated[Secret, AfterValidator(_as_ledger_url)] = Field(
        default_factory=_default_ledger_url,
        description="where the ledger is: SQLite or Postgres, as SQLAlchemy URL",
    )
    targets: Text = Field(
        default_factory=lambda: str(project_folder() / "targets.csv"),
        description="the list of targets: text, CSV, Parquet, a sitemap or its URL; or a file such as `targets.yaml`,"
        " which names several lists",
    )
    pages_url: Annotated[Text, AfterValidator(_as_place)] = Field(
        default_factory=lambda: str(project_folder() / "var" / "pages"),
        description="where the pages of each day are published: a folder, or a URL such as `s3://bucket/pages`",
    )
    submission_mode: Annotated[Literal["auto", "extract", "batch"], BeforeValidator(_trimmed)] = Field(
        "auto",
        description="how targets are handed to the service: `extract` makes a job of each, `batch` one of up to 1000"
        " with equal options, `auto` batches from 50 targets on where the service offers them",
    )
    daily_page_limit: Annotated[int, Field(ge=0)] | None = Field(
        None, description="the most pages submitted in a day; unset is no limit"
    )
    monthly_page_limit: Annotated[int, Field(ge=0)] | None = Field(
        None, description="the most pages submitted in a calendar month; unset is no limit"
    )
    send_lease_seconds: Annotated[Seconds, Field(gt=_LEAST_REQUEST_SECONDS)] = Field(
        60, description="how long a claimed target may take to be sent"
    )
    send_grace_seconds: SomeSeconds = Field(
        120, description="how long after the lease a lost answer waits before its job is looked up"
    )
    clock_skew_seconds: Seconds = Field(10, description="how far the service's clock may be off")
    max_attempts: Annotated[int, Field(ge=1, le=100)] = Field(
        3, description="how often a target is submitted before it is parked"
    )
    job_timeout_seconds: SomeSeconds = Field(1800, description="when a job that does not end is given up")
    lost_grace_seconds: SomeSeconds = Field(
        120, description="how long a job may be unknown before it counts as lost"
    )
    unresolved_after_seconds: SomeSeconds = Field(
        21600, description="when a submission that cannot be looked up is parked as unresolved"
    )
    sweep_after_seconds: SomeSeconds = Field(
        600, description="how old a job must be before the sweep looks for its end"
    )
    unsettled_alert_seconds: SomeSeconds = Field(
        7200, description="the age of an unsettled job from which the check on `reconciliation` fails"
    )
    adopt_jobs: bool = Field(
        False, description="store the results of jobs that other programs submit with the same key, too"
    )
    poll: bool = Field(
        True,
        description="look at running jobs until they end; `false` leaves the news to webhooks, their log and the sweep",
    )
    concurrency: Annotated[int, Field(ge=1, le=500)] = Field(32, description="the most requests at once")
    drain_seconds: SomeSeconds = Field(
        600, description="how long a settle run goes on while news still comes"
    )
    drain_quiet_seconds: Seconds = Field(20, description="how long no news may come before a settle run ends")
    max_body_bytes: Annotated[int, Field(ge=1024)] = Field(
        32 * 1024 * 1024, description="the largest answer that is read, decoded"
    )
    timezone: Annotated[Text, AfterValidator(_as_timezone)] = Field(
        "UTC", description="where a day or a month begins and ends"
    )
    start_date: Annotated[date, BeforeValidator(_trimmed)] = Field(
        date(2026, 1, 1), description="the first day"
    )
    day_deadline: Annotated[time, BeforeValidator(_trimmed)] | None = Field(
        None,
        description="the time in that zone, such as 06:00, by which a day should be done; unset checks nothing",
    )
    mark_urls: bool = Field(
        False, description="add a fragment to each URL sent, by which a lost answer's job is told for certain"
    )
    webhook_secret: Secret | None = Field(
        None, alias="GEONODE_WEBHOOK_SECRET", description="a webhook secret, if not in the file"
    )
    webhook_secrets_file: Annotated[Path, BeforeValidator(_trimmed)] = Field(
        default_factory=lambda: project_folder() / "var" / "webhook-secrets.json",
        alias="GEONODE_WEBHOOK_SECRETS_FILE",
        description="where the webhooks' secrets are kept",
    )
    signature_header: Annotated[Text, AfterValidator(_as_header)] = Field(
        "X-Webhook-Signature",
        alias="GEONODE_SIGNATURE_HEADER",
        description="the header that deliveries are signed in",
    )
    signature_schemes: Annotated[Words, AfterValidator(_as_schemes)] = Field(
        ("hex", "sha256=", "base64"),
        description="how deliveries may be signed: any of hex, sha256=, base64, standard",
    )
    webhook_job_id_paths: Words = Field(
        ("data.job_id", "job_id"), description="where a delivery names its job, tried in turn"
    )
    webhook_event_paths: Words = Field(
        ("event", "event_type"), description="where a delivery names its event"
    )
    webhook_delivery_id_paths: Words = Field(
        ("delivery_id", "id"), description="where a delivery names itself"
    )
    keep_content_days: Annotated[int, Field(ge=LEAST_DAYS_KEPT)] | None = Field(
        None,
        description="for how many days the ledger keeps the content of pages, which is then in the published files"
        " alone; unset keeps it for ever",
    )
    keep_news_days: Annotated[int, Field(ge=LEAST_DAYS_KEPT)] | None = Field(
        None,
        description="for how many days events that were processed, and deliveries of webhooks, are kept; unset keeps"
        " them for ever",
    )
    log_format: Annotated[Literal["text", "json"], BeforeValidator(_trimmed)] = Field(
        "text", description="how the receiver and `metrics` log: `text`, or `json`, an object a line"
    )
    traces: Annotated[Literal["off", "otlp"], BeforeValidator(_trimmed)] = Field(
        "off",
        description="`otlp` sends OpenTelemetry traces to where `OTEL_EXPORTER_OTLP_ENDPOINT` says; needs the extra"
        " `traces`",
    )
    alert_url: Annotated[Secret, AfterValidator(_as_secret_url)] | None = Field(
        None, description="where failed runs and checks are posted to, as JSON; unset posts nothing"
    )
    slack_webhook_url: Annotated[Secret, AfterValidator(_as_secret_url)] | None = Field(
        None, description="an incoming webhook of Slack that failed runs and checks are posted to"
    )
    dagster_url: Annotated[Text, AfterValidator(_as_url)] | None = Field(
        None, description="where Dagster's UI is, for the links in alerts"
    )
    sandbox_url: Annotated[Text, AfterValidator(_as_url)] | None = Field(
        None, description="the sandbox whose record of the truth `audit` compares with"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)  # nothing but what load_settings was given to read

    @property
    def has_api_key(self) -> bool:
        """Whether the default account is told a key; its file may be absent all the same."""
        return self.api_key is not None or self.api_key_file is not None

    @property
    def ledger_location(self) -> str:
        """The ledger's URL for people: neither its password nor its query is in it."""
        url = sa.make_url(self.ledger_url.get_secret_value()).set(query={})
        return url.render_as_string(hide_password=True)

    @model_validator(mode="after")
    def _one_place_holds_the_key(self) -> Self:
        if self.api_key is not None and self.api_key_file is not None:
            raise ValueError(
                "GEONODE_SCRAPER_API_KEY and GEONODE_SCRAPER_API_KEY_FILE are both set: unset one of them"
            )
        return self

    @model_validator(mode="after")
    def _waits_fit_together(self) -> Self:
        # Rule 5 of the state machine: a job must be listed before its absence from the listing proves anything.
        problems = []
        least = self.send_lease_seconds + self.clock_skew_seconds
        if self.send_grace_seconds <= least:
            problems.append(
                f"SCRAPER_SEND_GRACE_SECONDS takes more than lease and clock skew together ({least:g}), by as long as a"
                f" new job may stay out of the service's listing; it was {self.send_grace_seconds:g}"
            )
        least = self.send_lease_seconds + self.send_grace_seconds
        if self.unresolved_after_seconds <= least:
            problems.append(
                f"SCRAPER_UNRESOLVED_AFTER_SECONDS takes more than lease and grace together ({least:g});"
                f" it was {self.unresolved_after_seconds:g}"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self


class _Environment(EnvSettingsSource):
    """Reads one given mapping and nothing else; a blank variable counts as unset."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(Settings)
        self.env_vars = {name: environ[name] for name in variables() if environ.get(name, "").strip()}


def load_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from the environment, where an empty variable counts as unset; raises SettingsError."""
    given = _Environment(os.environ if environ is None else environ)()
    try:
        return Settings(**given)
    except ValidationError as error:
        problems = [_describe(problem, given) for problem in error.errors(include_url=False)]
    # Raised out here, so that no traceback leads to the values.
    raise SettingsError(*problems)


def variables() -> dict[str, str]:
    """The variables that are read, each with what it decides."""
    return {str(field.alias): str(field.description) for field in Settings.model_fields.values()}


def unknown_variables(environ: Mapping[str, str] | None = None) -> dict[str, str | None]:
    """Variables that look like ours and are not read, a typing error say, each with the name that is closest."""
    known = list(variables())
    values = os.environ if environ is None else environ
    strangers = sorted(
        name for name in values if name.startswith(("SCRAPER_", "GEONODE_SCRAPER_")) and name not in known
    )
    return {name: next(iter(get_close_matches(name, known, n=1, cutoff=0.8)), None) for name in strangers}


_TAKES = {
    "int_parsing": "takes a whole number",
    "int_from_float": "takes a whole number",
    "int_parsing_size": "takes a smaller number",
    "float_parsing": "takes a number of seconds",
    "finite_number": "takes a number of seconds",
    "greater_than": "takes more than {gt:g}",
    "greater_than_equal": "takes {ge:g} or more",
    "less_than_equal": "takes {le:g} or less",
    "bool_parsing": "takes true or false",
    "literal_error": "takes {expected}",
    "date_parsing": "takes a date such as 2026-01-31",
    "date_from_datetime_parsing": "takes a date such as 2026-01-31",
    "date_from_datetime_inexact": "takes a date such as 2026-01-31",
}


def _describe(problem: ErrorDetails, given: Mapping[str, str]) -> str:
    context = problem.get("ctx", {})
    takes = _TAKES.get(problem["type"], problem["msg"]).format_map(context)
    if problem["type"] == "value_error":  # one of ours, from above
        takes = str(context["error"])
    if not problem["loc"]:  # several variables do not fit together: the text says which
        return takes
    variable = str(problem["loc"][0])
    return f"{variable} {takes}; it was {_shown(variable, given[variable])}"


def _shown(variable: str, value: str) -> str:
    field = next(field for field in Settings.model_fields.values() if field.alias == variable)
    if "SecretStr" in str(field.annotation) or re.search("[@?]", value):
        return "something else (not shown, since it may hold a secret)"
    return repr(value if len(value) <= _LONGEST_VALUE_SHOWN else value[:_LONGEST_VALUE_SHOWN] + "…")
