"""The file that names several lists, `targets.yaml`: its model, and what is wrong with one, line by line."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated

import sqlalchemy as sa
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    SecretStr,
    StringConstraints,
    Tag,
    WithJsonSchema,
)

from scraper_pipeline.documents import DocumentError, Form, Place
from scraper_pipeline.ledger import DEFAULT_ACCOUNT, ListTerms
from scraper_pipeline.scraper_api import ExtractOptions
from scraper_pipeline.target_lists.columns import LIST_LABEL, OPTION_COLUMNS, URL, Defaults
from scraper_pipeline.target_lists.cron import check_cron
from scraper_pipeline.target_lists.entries import TargetListError
from scraper_pipeline.target_lists.lines import open_list
from scraper_pipeline.target_lists.lists import DAILY, MANUAL, TargetList
from scraper_pipeline.target_lists.queries import FROM_ENVIRONMENT, Query
from scraper_pipeline.target_lists.sources import Location, Source

_A_LOCATION, _A_QUERY = "a location", "a query"


def _as_location(value: str) -> str:
    scheme, separator, rest = value.strip().partition("://")
    if separator and (scheme.lower() not in ("http", "https") or not rest):
        raise ValueError("takes a path, the http(s) URL of a sitemap, or a mapping of `query` and `database`")
    return value.strip()


def _as_database(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not FROM_ENVIRONMENT.fullmatch(text):
        try:
            sa.make_url(text)
        except (sa.exc.ArgumentError, ValueError):
            raise ValueError(
                "takes a SQLAlchemy URL such as postgresql://user:password@host/name, or ${NAME} for the environment "
                "variable that holds one"
            ) from None
    return value


def _as_schedule(value: str) -> str:
    if value in (DAILY, MANUAL):
        return value
    if wrong := check_cron(value):
        raise ValueError(f'takes {DAILY}, {MANUAL} or cron such as "30 6 * * *"; this {wrong}')
    return " ".join(value.split())


def _as_options(value: object) -> object:
    """Options as the cells of a CSV may have them."""
    if not isinstance(value, Mapping):
        return value
    if "headers" in value:
        raise ValueError("takes no headers: what a list says is stored and shown")
    return {
        name: OPTION_COLUMNS[name](cell) if name in OPTION_COLUMNS and isinstance(cell, str) else cell
        for name, cell in value.items()
    }


def _as_labels(value: Mapping[str, str]) -> Mapping[str, str]:
    taken = sorted(set(value) & {URL, LIST_LABEL, *OPTION_COLUMNS})
    if taken:
        raise ValueError(f"takes no {', '.join(taken)}: a label of that name would be something else")
    return value


class _Keys(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class QueryEntry(_Keys):
    """A query whose answer is the list; its columns are those of a CSV."""

    query: Annotated[str, StringConstraints(min_length=1)] = Field(
        description="the SQL; the day is bound as :date"
    )
    database: Annotated[SecretStr, AfterValidator(_as_database)] = Field(
        description="a SQLAlchemy URL, or ${NAME} for the environment variable that holds one"
    )


class BudgetEntry(_Keys):
    """How much of the list a day's plan may take; what is beyond stays out of it."""

    max_pages_per_day: Annotated[int, Field(ge=1)] | None = Field(
        None, description="the most pages that the plan of a day may cost"
    )
    max_pages_per_month: Annotated[int, Field(ge=1)] | None = Field(
        None, description="the most pages that the plans of a calendar month's days may cost"
    )


def _kind_of_source(value: object) -> str:
    return _A_QUERY if isinstance(value, Mapping | QueryEntry) else _A_LOCATION


_LocationText = Annotated[str, StringConstraints(min_length=1), AfterValidator(_as_location)]


class ListEntry(_Keys):
    """One list."""

    source: Annotated[
        Annotated[_LocationText, Tag(_A_LOCATION)] | Annotated[QueryEntry, Tag(_A_QUERY)],
        Discriminator(_kind_of_source),
    ] = Field(
        description="where it lives: a path (CSV, text, Parquet, a sitemap), the URL of a sitemap, or a query. A path "
        "is below the folder of this file; {date} is the day, {date:%Y/%m/%d} the same in another form"
    )
    options: Annotated[ExtractOptions, BeforeValidator(_as_options)] = Field(
        default_factory=ExtractOptions, description="options of every row that names no other"
    )
    labels: Annotated[
        dict[
            Annotated[str, StringConstraints(min_length=1)],
            Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"]})],
        ],
        AfterValidator(_as_labels),
    ] = Field(default_factory=dict, description="labels of every row that names no other")
    schedule: Annotated[str, AfterValidator(_as_schedule)] = Field(
        DAILY,
        description="when it is submitted: cron in SCRAPER_TIMEZONE, `manual` for never by itself, `daily` with the "
        "daily schedule",
    )
    budget: BudgetEntry = Field(default_factory=BudgetEntry, description="what its plans may cost")
    account: Annotated[str, StringConstraints(min_length=1)] = Field(
        DEFAULT_ACCOUNT,
        description="the account that submits it and pays: one of SCRAPER_ACCOUNTS_FILE, or default",
    )


class Catalogue(_Keys):
    """Named lists of targets."""

    lists: Annotated[
        dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]{1,60}$")], ListEntry],
        Field(min_length=1),
    ] = Field(description="each list by its name, in the order in which they are planned")


def load_catalogue(path: Path, accounts: Sequence[str] = (DEFAULT_ACCOUNT,)) -> tuple[TargetList, ...]:
    """The lists of a file, in its order; each is of one of these accounts.

    Raises TargetListError, which names everything that is wrong with its line.
    """
    try:
        with open_list(path) as file:
            catalogue = _FORM.read(path, file, partial(_unknown_accounts, accounts))
    except DocumentError as error:
        raise TargetListError(str(error)) from None
    return tuple(_make_list(name, entry, path.parent) for name, entry in catalogue.lists.items())


def _unknown_accounts(accounts: Sequence[str], catalogue: Catalogue) -> Iterator[tuple[Place, str]]:
    for name, entry in catalogue.lists.items():
        if entry.account not in accounts:
            close = get_close_matches(entry.account, accounts, n=1)
            meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(accounts)}"
            if len(accounts) == 1:
                meant = "SCRAPER_ACCOUNTS_FILE names none"
            yield (
                ("lists", name, "account"),
                f"lists.{name}.account is no account that there is; {meant}",
            )


def _make_list(name: str, entry: ListEntry, folder: Path) -> TargetList:
    source: Source
    if isinstance(entry.source, QueryEntry):
        source = Query(entry.source.query, entry.source.database, folder)
    else:
        source = Location(entry.source, folder)
    options: dict[str, JsonValue] = entry.options.to_mapping()
    return TargetList(
        source=source,
        terms=ListTerms(name, entry.budget.max_pages_per_day, entry.budget.max_pages_per_month),
        is_named=True,
        defaults=Defaults(options, entry.labels),
        schedule=entry.schedule,
        account=entry.account,
    )


def _known_keys(place: Place) -> Iterator[str]:
    """The keys that a mapping at this place may have."""
    below: dict[str, Iterable[str]] = {
        "options": OPTION_COLUMNS,
        "source": QueryEntry.model_fields,
        "budget": BudgetEntry.model_fields,
    }
    if not place:
        yield from Catalogue.model_fields
    elif len(place) == 2:
        yield from ListEntry.model_fields
    else:
        yield from below.get(str(place[2]), ())


_FORM = Form(Catalogue, _known_keys, "a list", frozenset({_A_LOCATION, _A_QUERY}))
