"""The current pages of a day, streamed in a fixed order as they stood at one moment."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, or_, select

from scraper_pipeline.ledger.base import StorePart
from scraper_pipeline.ledger.schema import results

_page = results.c
KEYS_AT_ONCE = 1000
PAGES_AT_ONCE = 20
CHARACTERS_AT_ONCE = (
    4 * 1024 * 1024
)  # as far as it can be foreseen: a page may be as large as the largest answer


@dataclass(frozen=True)
class PageKey:
    """What tells a stored page from every other one, and the labels that came with its target."""

    job_id: str
    item_key: str
    account: str
    target_id: str
    labels: Mapping[str, Any]


@dataclass(frozen=True)
class PagesOfDay:
    """The pages of a day within one transaction, by account, target and item; memory holds a few of them."""

    connection: Connection
    condition: ColumnElement[bool]

    def keys(self) -> Iterator[PageKey]:
        """Every page without its content."""
        columns = (_page.job_id, _page.item_key, _page.account, _page.target_id, _page.labels)
        for row in self._stream(*columns):
            yield PageKey(*row)

    def rows(self, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Every page with at least these columns of ``results``."""
        names = dict.fromkeys(["job_id", "item_key", *columns])
        statement = select(*(_page[name] for name in names))
        keys, at_once = self._stream(_page.job_id, _page.item_key), 1
        while wanted := [tuple(key) for key in islice(keys, at_once)]:
            # Written out, since SQLite looks through the whole table for a pair that is in a list.
            one_of_them = or_(*(and_(_page.job_id == job, _page.item_key == item) for job, item in wanted))
            found = self.connection.execute(statement.where(one_of_them))
            by_key = {(row["job_id"], row["item_key"]): dict(row) for row in found.mappings()}
            yield from (by_key[key] for key in wanted)
            longest = max(map(_characters, by_key.values()))
            at_once = max(1, min(PAGES_AT_ONCE, 2 * at_once, CHARACTERS_AT_ONCE // max(1, longest)))

    def lack_content(self) -> bool:
        """Whether a page that was not empty has no content any more: it was pruned."""
        is_pruned = and_(_page.is_empty.is_(False), _page.markdown.is_(None), _page.html.is_(None))
        found = select(_page.job_id).where(self.condition, is_pruned, ~_is_outdated())
        return bool(self.connection.scalar(select(found.exists())))

    def _stream(self, *columns: ColumnElement[Any]) -> Iterator[Any]:
        """These columns, which are no content, of the rows that the view ``current_results`` has.

        Not from the view itself, nor with a column that stands behind the content: SQLite would read all of it.
        """
        return iter(
            self.connection.execute(
                select(*columns)
                .where(self.condition, ~_is_outdated())
                .order_by(_page.account, _page.target_id, _page.item_key)
                .execution_options(yield_per=KEYS_AT_ONCE)
            )
        )


def _characters(row: Mapping[str, Any]) -> int:
    return sum(len(row.get(name) or "") for name in ("markdown", "html"))


def _is_outdated() -> ColumnElement[bool]:
    """Whether a later attempt at the page's target has stored one as well."""
    newer = results.alias()
    return exists().where(
        *(newer.c[name] == _page[name] for name in ("account", "feed", "partition_key", "target_id")),
        newer.c.attempt > _page.attempt,
    )


class PageStore(StorePart):
    """Reads only."""

    @contextmanager
    def of(self, partition_key: str) -> Iterator[PagesOfDay]:
        """The current pages of a partition at this moment, whatever is committed while they are read."""
        with self.reading() as connection:
            if self.engine.dialect.name == "postgresql":
                connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield PagesOfDay(connection, and_(self.in_scope(results), _page.partition_key == partition_key))
