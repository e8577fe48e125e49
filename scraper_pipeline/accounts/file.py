"""The file that names further accounts, `accounts.yaml`: where the key of each is, and what else it says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from scraper_pipeline.documents import DocumentError, Form, Place
from scraper_pipeline.ledger import DEFAULT_ACCOUNT
from scraper_pipeline.settings import SettingsError, as_service_url

_VARIABLES = {
    "GEONODE_SCRAPER_API_KEY": "its key, which SCRAPER_ACCOUNTS_FILE leads to",
    "GEONODE_SCRAPER_HOST": "its host in SCRAPER_ACCOUNTS_FILE",
}


def as_told_of(account: str, text: str) -> str:
    """What an error or an advice says, with an account's own key and host for the variables of the default one's."""
    if account != DEFAULT_ACCOUNT:
        for variable, own in _VARIABLES.items():
            text = text.replace(variable, own)
    return text


class _Keys(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class AccountEntry(_Keys):
    """One account. What it does not say is as the environment has it."""

    api_key_file: Annotated[str, StringConstraints(min_length=1)] | None = Field(
        None, description="a file with its key and nothing else; a path is below the folder of this file"
    )
    api_key_env: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = Field(
        None, description="the environment variable that holds its key, in place of a file"
    )
    host: Annotated[str, AfterValidator(as_service_url)] | None = Field(
        None, description="the service's base URL"
    )
    daily_page_limit: Annotated[int, Field(ge=0)] | None = Field(
        None, description="the most pages submitted in a day"
    )
    monthly_page_limit: Annotated[int, Field(ge=0)] | None = Field(
        None, description="the most pages submitted in a calendar month"
    )
    concurrency: Annotated[int, Field(ge=1, le=500)] | None = Field(
        None, description="the most requests at once"
    )

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        if (self.api_key_file is None) == (self.api_key_env is None):
            raise ValueError("takes either api_key_file or api_key_env, which say where its key is")
        return self


class AccountsFile(_Keys):
    """Accounts beside the default one."""

    accounts: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]{1,60}$")], AccountEntry] = Field(
        description="each account by its name"
    )


def read_accounts_file(path: Path) -> dict[str, AccountEntry]:
    """The accounts of a file, in its order. Raises SettingsError, which names everything wrong with its line."""
    try:
        with path.expanduser().open("rb") as file:
            return _FORM.read(path, file, _taken_names).accounts
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise SettingsError(f"SCRAPER_ACCOUNTS_FILE: {path} cannot be opened ({reason})") from None
    except DocumentError as error:
        raise SettingsError(f"SCRAPER_ACCOUNTS_FILE: {error}") from None


def _taken_names(read: AccountsFile) -> Iterator[tuple[Place, str]]:
    if DEFAULT_ACCOUNT in read.accounts:
        yield (
            ("accounts", DEFAULT_ACCOUNT),
            f"accounts.{DEFAULT_ACCOUNT} is the account of the environment, which this file says nothing of",
        )


def _known_keys(place: Place) -> Iterator[str]:
    yield from AccountEntry.model_fields if len(place) == 2 else AccountsFile.model_fields


_NO_KEYS = "a key never stands in this file: put it into one of its own, and name that in api_key_file"
_FORM = Form(AccountsFile, _known_keys, "an account", refuses_empty=True, instead={"api_key": _NO_KEYS})
