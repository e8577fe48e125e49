"""The file of accounts is read as people write it, keys are read anew for each client, and faults show no key."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scraper_pipeline.accounts import (
    known_account,
    lifecycle_policy,
    lists_of,
    named_accounts,
    open_accounts,
    open_ledger,
)
from scraper_pipeline.ledger import Ledger, Target
from scraper_pipeline.resources import Setbacks
from scraper_pipeline.scraper_api import PaymentRequired, Unauthorized
from scraper_pipeline.settings import Settings, SettingsError, load_settings
from scraper_pipeline.target_lists import TargetListError

KEY = "key-0f-research"
Write = Callable[..., Settings]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Settings whose file of accounts has this content."""

    def write(content: str, **environ: str) -> Settings:
        path = tmp_path / "accounts.yaml"
        path.write_text(content)
        return load_settings(
            {"GEONODE_SCRAPER_API_KEY": "key-0", "SCRAPER_ACCOUNTS_FILE": str(path), **environ}
        )

    return write


def fault_of(settings: Settings) -> str:
    with pytest.raises(SettingsError) as caught:
        named_accounts(settings)
    return str(caught.value)


def test_without_a_file_there_is_the_one_account_of_the_environment() -> None:
    settings = load_settings({"GEONODE_SCRAPER_API_KEY": "key-0"})
    [only] = named_accounts(settings)
    assert (only.name, only.settings) == ("default", settings)
    assert only.key.read().get_secret_value() == "key-0"


def test_an_account_takes_from_the_settings_what_it_does_not_say(write: Write, tmp_path: Path) -> None:
    (tmp_path / "research.key").write_text(f"{KEY}\n")
    default, research, prices = named_accounts(
        write(
            "accounts:\n"
            "  research: {api_key_file: research.key, host: 'https://other.example/', daily_page_limit: 7}\n"
            "  prices: {api_key_env: PRICES_KEY, monthly_page_limit: 9, concurrency: 2}\n",
            SCRAPER_DAILY_PAGE_LIMIT="100",
        )
    )
    policies = [lifecycle_policy(one.settings) for one in (default, research, prices)]
    assert [(one.daily_page_limit, one.monthly_page_limit, one.concurrency) for one in policies] == [
        (100, None, 32),
        (7, None, 32),
        (100, 9, 2),
    ]
    assert research.settings.host == "https://other.example"
    assert prices.settings.host == default.settings.host
    assert all(KEY not in repr(one) for one in (research, research.key, research.key.read()))


def test_a_key_is_read_anew_whenever_it_is_needed(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "research.key"
    key.write_text(KEY)
    _, research, prices = named_accounts(
        write("accounts: {research: {api_key_file: research.key}, prices: {api_key_env: PRICES_KEY}}")
    )
    assert research.key.read().get_secret_value() == KEY
    key.write_text("key-of-tomorrow")
    assert research.key.read().get_secret_value() == "key-of-tomorrow"
    with pytest.raises(SettingsError, match="the variable that api_key_env names holds no API key"):
        prices.key.read()
    monkeypatch.setenv("PRICES_KEY", "key-of-prices")
    assert prices.key.read().get_secret_value() == "key-of-prices"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "line 1: accounts is missing"),
        ("acounts: {}\n", "line 1: acounts is unknown; did you mean accounts?"),
        (
            "accounts:\n  research:\n    api_key: hunter2\n",
            "line 3: accounts.research.api_key is unknown; a key never stands in this file",
        ),
        ("accounts:\n  research: {}\n", "line 2: accounts.research takes either api_key_file or api_key_env"),
        ("accounts:\n  a: {api_key_file: x, api_key_env: Y}\n", "takes either api_key_file or api_key_env"),
        (
            "accounts:\n  default: {api_key_file: x}\n",
            "line 2: accounts.default is the account of the environment",
        ),
        ("accounts:\n  two words: {api_key_file: x}\n", "line 2: the name of an account takes letters"),
        (
            "accounts:\n  a:\n    api_key_file: x\n    host: http://far.example\n",
            "line 4: accounts.a.host takes an https",
        ),
        ("accounts:\n  a: {api_key_file: x, daily_page_limit: -1}\n", "daily_page_limit takes 0 or more"),
        (
            "accounts:\n  a:\n    api_key_file: x\n    daily_page_limit:\n    host:\n",
            "line 4: daily_page_limit is empty: give it a value",
        ),
        ("accounts:\n  a: {api_key_env: 'hunter2 x'}\n", "api_key_env takes what matches"),
    ],
)
def test_what_is_wrong_with_the_file_is_told_with_its_line_and_without_a_key(
    write: Write, content: str, said: str
) -> None:
    told = fault_of(write(content))
    assert said in told
    assert told.startswith("SCRAPER_ACCOUNTS_FILE: ")
    assert "hunter2" not in told


def test_a_file_that_is_absent_is_named(tmp_path: Path) -> None:
    settings = load_settings({"SCRAPER_ACCOUNTS_FILE": str(tmp_path / "nowhere.yaml")})
    assert "nowhere.yaml cannot be opened (No such file" in fault_of(settings)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "the file that is named for it is not in"),
        ("", "holds no API key"),
        ("two hunter2", "takes the key as"),
        ("caf\xe9", "not UTF-8"),
    ],
)
def test_a_key_that_is_none_is_told_with_its_account_and_not_shown(
    write: Write, tmp_path: Path, content: str | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "key").write_bytes(content.encode("latin-1"))
    _, research = named_accounts(write("accounts: {research: {api_key_file: key}}"))
    with pytest.raises(SettingsError, match="The account research: ") as caught:
        research.open_client()
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_default_key_may_be_in_a_file_instead(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("key-of-the-file\n")
    environ = {"GEONODE_SCRAPER_API_KEY_FILE": str(tmp_path / "key")}
    [only] = named_accounts(load_settings(environ))
    assert only.key.read().get_secret_value() == "key-of-the-file"
    with pytest.raises(SettingsError, match="are both set"):
        load_settings({**environ, "GEONODE_SCRAPER_API_KEY": "another"})


def test_a_list_names_one_of_the_accounts(write: Write, tmp_path: Path) -> None:
    targets = tmp_path / "targets.yaml"
    settings = write("accounts: {research: {api_key_file: key}}", SCRAPER_TARGETS=str(targets))
    targets.write_text("lists:\n  a: {source: a.csv}\n  b: {source: a.csv, account: research}\n")
    assert [(one.name, one.account) for one in lists_of(settings)] == [("a", "default"), ("b", "research")]
    targets.write_text("lists:\n  a:\n    source: a.csv\n    account: reserch\n")
    with pytest.raises(
        TargetListError, match=r"line 4: lists\.a\.account is no account .* did you mean research\?"
    ):
        lists_of(settings)
    alone = load_settings({"SCRAPER_TARGETS": str(targets)})
    with pytest.raises(TargetListError, match="SCRAPER_ACCOUNTS_FILE names none"):
        lists_of(alone)


def test_an_account_that_has_rows_and_is_named_no_more_is_read_and_not_worked_for(
    write: Write, fresh_sqlite_url: str
) -> None:
    settings = write("accounts: {research: {api_key_file: key}}", SCRAPER_LEDGER_URL=fresh_sqlite_url)
    with Ledger.open(fresh_sqlite_url) as ledger:
        ledger.of_account("retired").submissions.plan("2026-01-05", [Target("t", "https://site.test/1")])
    with open_accounts(settings) as accounts:
        assert accounts.ledger.scope.accounts == ("default", "research", "retired")
        assert [one.name for one in accounts] == ["default", "research"]
    alone = load_settings({"SCRAPER_LEDGER_URL": fresh_sqlite_url})
    with open_ledger(alone) as ledger:
        assert ledger.scope.accounts == ("default",)


def test_setbacks_are_told_once_all_have_had_their_turn() -> None:
    setbacks = Setbacks(are_several=True)
    with setbacks.of("default"):
        raise PaymentRequired("402", status=402)
    with setbacks.of("research"):
        raise Unauthorized("401", status=401)
    with setbacks.of("prices"):
        pass
    assert "default" in setbacks
    assert "prices" not in setbacks
    assert setbacks.told is not None
    assert "The account default is stopped: 402. Top up" in setbacks.told
    assert "The account research is stopped: 401. Check its key" in setbacks.told
    with pytest.raises(PaymentRequired), Setbacks(are_several=False).of("default"):
        raise PaymentRequired("402", status=402)
    with pytest.raises(ZeroDivisionError), setbacks.of("prices"):
        raise ZeroDivisionError


def test_a_name_that_is_none_is_answered_with_what_may_be_meant() -> None:
    assert known_account(["default", "research"], "research") == "research"
    with pytest.raises(SettingsError, match="did you mean research"):
        known_account(["default", "research"], "reserch")
    with pytest.raises(SettingsError, match="the only one is default"):
        known_account(["default"], "x")
