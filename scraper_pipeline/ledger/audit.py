"""Holds the ledger against the invariants and the service's own books: each violation names its rule and target."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Result, Select, and_, select, tuple_

from scraper_pipeline.ledger.base import StorePart, chunked
from scraper_pipeline.ledger.invariants import invariants
from scraper_pipeline.ledger.records import Kind, LetterCode, hash_url, unmark_url
from scraper_pipeline.ledger.schema import dead_letters, results, submissions

Item = tuple[str, str]
_row, _result, _letter = submissions.c, results.c, dead_letters.c

# Pages that may have been paid and can't be had all the same: the letter says so, and nothing was lost by us.
PAID_AND_PARKED = frozenset({LetterCode.TOO_LARGE, LetterCode.EXPIRED, LetterCode.UNREADABLE})


@dataclass(frozen=True)
class Violation:
    """One broken invariant: the rule's name, whom it concerns, and what was found."""

    rule: str
    partition_key: str | None
    target_id: str | None
    detail: str


@dataclass(frozen=True)
class ServiceJob:
    """What the service itself says became of a job, or of one page of a batch or crawl; ``charged`` is in pages."""

    job_id: str
    url: str
    status: str
    charged: int
    kind: str = Kind.EXTRACT

    @property
    def item(self) -> "Item":
        """The job and the hash of the URL: what the ledger knows the page by."""
        return self.job_id, hash_url(unmark_url(self.url))


class AuditStore(StorePart):
    """Reads only; the same checks serve the command line, the asset checks and the tests."""

    def check(
        self, partition_key: str | None = None, on_rule: Callable[[int, int], None] = lambda done, total: None
    ) -> list[Violation]:
        """Every violation that the ledger alone can show, in all partitions or in one.

        ``on_rule`` is told how many of how many rules are done.
        """
        return self._run(partition_key, on_rule=on_rule)

    def check_stored_once(self, partition_key: str) -> list[Violation]:
        """Results of a partition that stand twice, or that no submission accounts for."""
        return self._run(partition_key, "stored_once", "result_has_row")

    def check_complete(self, partition_key: str) -> list[Violation]:
        """Targets of a partition that are stored without a result, or dead without a letter, or in no single state."""
        return self._run(
            partition_key, "one_state", "stored_has_result", "dead_has_letter", "stamped_is_settled"
        )

    def _run(
        self,
        partition_key: str | None,
        *rules: str,
        on_rule: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[Violation]:
        found = []
        with self.reading() as connection:
            on_sqlite = connection.dialect.name == "sqlite"
            everything = [
                one
                for scope in self.scope.each
                for one in invariants(scope, partition_key, on_sqlite=on_sqlite)
            ]
            wanted = [one for one in everything if not rules or one.rule in rules]
            for done, one in enumerate(wanted, start=1):
                found += [
                    Violation(one.rule, row.partition_key, row.target_id, one.detail)
                    for row in connection.execute(one.broken)
                ]
                on_rule(done, len(wanted))
        return found

    def check_against(self, service: Iterable[ServiceJob]) -> list[Violation]:
        """Violations that need the service's own books: pages paid and not stored, paid twice, or stored unpaid.

        The books are held in memory; of the ledger only what they need, a chunk of rows at a time.
        """
        books = {page.item: page for page in service}
        paid = Counter[str]()
        for page in books.values():
            if page.charged and page.kind != Kind.CRAWL:
                paid[page.item[1]] += page.charged
        with self.reading() as connection:
            unpaid, unstored = self._compare_pages(connection, books)
            due = self._count_dues(connection, paid)
            ours = [page for page in unstored if page.kind == Kind.CRAWL or page.item[1] in due]
            return [
                *self._stored_unpaid(connection, books, unpaid),
                *self._paid_in_vain(connection, ours),
                *self._paid_twice(
                    connection, {url: (paid[url], *due[url]) for url in due if paid[url] > due[url][0]}
                ),
            ]

    @staticmethod
    def _compare_pages(
        connection: Connection, books: dict[Item, ServiceJob]
    ) -> tuple[list[Item], list[ServiceJob]]:
        """The stored pages that the service doesn't call completed, and those that were paid and are not stored."""
        unpaid, unstored = [], {page.item: page for page in books.values() if page.charged}
        for row in _stream(connection, select(_result.job_id, _result.item_key)):
            item = (row.job_id, row.item_key)
            unstored.pop(item, None)
            if item not in books or books[item].status != "completed":
                unpaid.append(item)
        return unpaid, list(unstored.values())

    def _count_dues(self, connection: Connection, paid: Mapping[str, int]) -> dict[str, tuple[int, int]]:
        """For each of our URLs that was paid: how often it may be (once a target and purpose), and one of its rows."""
        due: dict[str, tuple[int, int]] = {}
        before: object = None
        rows = (
            select(
                _row.id, _row.url_hash, _row.account, _row.partition_key, _row.target_id, _row.first_attempt
            )
            .where(self.in_scope(submissions))
            .order_by(_row.account, _row.feed, _row.partition_key, _row.target_id, _row.attempt)
        )
        for row in _stream(connection, rows):
            purpose = row[2:]
            if purpose != before and row.url_hash in paid:
                due[row.url_hash] = (due.get(row.url_hash, (0, 0))[0] + 1, row.id)
            before = purpose
        return due

    def _stored_unpaid(
        self, connection: Connection, books: dict[Item, ServiceJob], suspected: Iterable[Item]
    ) -> Iterator[Violation]:
        pages = select(_result.job_id, _result.item_key, _result.partition_key, _result.target_id)
        for chunk in chunked(suspected):
            found = connection.execute(
                pages.where(self.in_scope(results), tuple_(_result.job_id, _result.item_key).in_(chunk))
            )
            for page in found:
                known = books.get((page.job_id, page.item_key))
                yield Violation(
                    "stored_is_completed",
                    page.partition_key,
                    page.target_id,
                    f"a page of job {page.job_id} is stored, which is {known.status if known else 'unknown'} "
                    "to the service",
                )

    def _paid_in_vain(self, connection: Connection, suspected: Iterable[ServiceJob]) -> Iterator[Violation]:
        for chunk in chunked(suspected):
            bound = self._rows_of(connection, [page.job_id for page in chunk])
            for page in chunk:
                row = bound.get(page.item) or bound.get((page.job_id, Kind.CRAWL))
                is_others = row is None and page.kind == Kind.CRAWL
                if is_others or (row and row.given_reason in PAID_AND_PARKED):
                    continue
                state = f"its submission is {row.state}" if row else "no submission is bound to it"
                yield Violation(
                    "paid_is_stored",
                    row.partition_key if row else None,
                    row.target_id if row else None,
                    f"job {page.job_id} was paid, but its page is not stored: {state}",
                )

    def _rows_of(self, connection: Connection, job_ids: list[str]) -> dict[Item, Any]:
        """The rows of some jobs by their items; that of a crawl, which is for all its pages, under its kind."""
        its_letter = and_(
            *(_letter[name] == _row[name] for name in ("account", "feed", "partition_key", "target_id")),
            _letter.job_id == _row.job_id,
            _letter.item_key == _row.item_key,
        )
        rows = connection.execute(
            select(
                _row.job_id, _row.item_key, _row.kind, _row.partition_key, _row.target_id, _row.state,
                _letter.error_code.label("given_reason"),
            )
            .outerjoin(dead_letters, its_letter)
            .where(self.in_scope(submissions), _row.job_id.in_(job_ids))
        )  # fmt: skip
        return {(row.job_id, Kind.CRAWL if row.kind == Kind.CRAWL else row.item_key): row for row in rows}

    @staticmethod
    def _paid_twice(
        connection: Connection, suspected: Mapping[str, tuple[int, int, int]]
    ) -> Iterator[Violation]:
        """Name a target of each URL for which more was paid than was due: given are both and one of its rows."""
        for chunk in chunked(suspected.values()):
            found = select(_row.id, _row.partition_key, _row.target_id).where(
                _row.id.in_([one[2] for one in chunk])
            )
            targets = {row.id: row for row in connection.execute(found)}
            for pages, allowed, row_id in chunk:
                yield Violation(
                    "paid_once",
                    targets[row_id].partition_key,
                    targets[row_id].target_id,
                    f"{pages} pages were paid where {allowed} was due",
                )


def _stream(connection: Connection, statement: Select[Any]) -> Result[Any]:
    """The rows of a statement, a few thousand of them in memory at a time."""
    return connection.execute(statement, execution_options={"yield_per": 5000})
