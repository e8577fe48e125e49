"""The file that names several lists, `targets.yaml`: its model, and what is wrong with one, line by line."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
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
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import ErrorDetails

from scraper_pipeline.ledger import ListTerms
from scraper_pipeline.scraper_api import ExtractOptions
from scraper_pipeline.target_lists.columns import LIST_LABEL, OPTION_COLUMNS, URL, Defaults
from scraper_pipeline.target_lists.cron import check_cron
from scraper_pipeline.target_lists.documents import Document, Fault, key_shown, read_document
from scraper_pipeline.target_lists.entries import TargetListError
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


class Catalogue(_Keys):
    """Named lists of targets."""

    lists: Annotated[
        dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]{1,60}$")], ListEntry],
        Field(min_length=1),
    ] = Field(description="each list by its name, in the order in which they are planned")


def load_catalogue(path: Path) -> tuple[TargetList, ...]:
    """The lists of a file, in its order. Raises TargetListError, which names everything that is wrong with its line."""
    document = read_document(path)
    faults = [fault for fault in document.faults]
    catalogue = None
    try:
        catalogue = Catalogue.model_validate({} if document.value is None else document.value)
    except ValidationError as error:
        faults += [_fault(problem, document) for problem in error.errors(include_url=False)]
    if faults or catalogue is None:
        told = dict.fromkeys(
            f"line {fault.line}: {fault.text}" for fault in sorted(faults, key=lambda fault: fault.line)
        )
        raise TargetListError(f"{path}, {'; '.join(told)}")
    return tuple(_make_list(name, entry, path.parent) for name, entry in catalogue.lists.items())


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
    )


_TAKES = {
    "missing": "is missing",
    "model_type": "takes a mapping",
    "dict_type": "takes a mapping",
    "string_type": "takes a text",
    "string_too_short": "takes a text that is not empty",
    "int_parsing": "takes a whole number",
    "int_from_float": "takes a whole number",
    "bool_parsing": "takes true or false",
    "greater_than_equal": "takes {ge} or more",
    "less_than_equal": "takes {le} or less",
    "literal_error": "takes {expected}",
    "too_short": "takes at least {min_length}",
    "string_pattern_mismatch": "takes what matches {pattern}",
}


def _fault(problem: ErrorDetails, document: Document) -> Fault:
    place = tuple(part for part in problem["loc"] if part not in (_A_LOCATION, _A_QUERY))
    line = document.line_of(place)
    if problem["type"] == "extra_forbidden":
        return Fault(line, _unknown(place))
    if place[-1:] == ("[key]",):
        return Fault(line, "the name of a list takes letters, digits and underscores, at most 60")
    context = problem.get("ctx", {})
    takes = str(context["error"]) if problem["type"] == "value_error" else problem["msg"]
    if problem["type"] in _TAKES:
        takes = _TAKES[problem["type"]].format_map(context)
    what = ".".join(key_shown(str(part)) for part in place) or "the file"
    return Fault(line, f"{what} {takes}")


def _unknown(place: tuple[str | int, ...]) -> str:
    known = list(_known_keys(place[:-1]))
    close = get_close_matches(str(place[-1]).lower(), known, n=1, cutoff=0.6)
    meant = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
    return f"{'.'.join(key_shown(str(part)) for part in place)} is unknown; {meant}"


def _known_keys(place: tuple[str | int, ...]) -> Iterator[str]:
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
