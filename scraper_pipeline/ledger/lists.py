"""What is known of each list and day: whether its planning came to its end, how long it is, what its plan may cost."""

from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, Connection, and_, select, update

from scraper_pipeline.ledger.base import StorePart
from scraper_pipeline.ledger.schema import planned_lists

DEFAULT_LIST = "default"
_list = planned_lists.c


@dataclass(frozen=True)
class ListTerms:
    """A list by its name, and the most pages that the plan of a day, and those of its month, may take from it."""

    name: str = DEFAULT_LIST
    pages_per_day: int | None = None
    pages_per_month: int | None = None

    @property
    def are_bounded(self) -> bool:
        return self.pages_per_day is not None or self.pages_per_month is not None


@dataclass(frozen=True)
class UnfinishedList:
    """A list whose planning for a day has begun and not come to its end; ``has_failed`` if that was its own fault."""

    name: str
    has_failed: bool


@dataclass(frozen=True)
class PlannedList:
    """A list as it was last planned whole for a day, and as it was for the day before that had it.

    ``targets`` is its length, what its budget left out (``beyond_budget``) included; ``pages`` is the most that what
    was planned of it may cost.
    """

    name: str
    targets: int
    pages: int
    beyond_budget: int
    day_before: str | None = None
    targets_before: int | None = None


class ListStore(StorePart):
    """Written while a day is planned, within the planning's own transactions as far as budgets need it."""

    def begin(self, partition_key: str, name: str) -> None:
        """Note that a list's planning begins; until it ends, it counts as unfinished."""
        now = self.clock()
        row = {**self.scope_values, "partition_key": partition_key, "list": name, "begun_at": now}
        statement = self.insert(planned_lists).values(row)
        with self.writing() as connection:
            connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["account", "feed", "list", "partition_key"],
                    set_={"begun_at": statement.excluded.begun_at, "failed_at": None},
                )
            )

    def fail(self, partition_key: str, name: str) -> None:
        """Note that an unfinished planning failed for the list's own sake: nobody but a person can mend that."""
        with self.writing() as connection:
            connection.execute(
                update(planned_lists)
                .where(self._is(partition_key, name), _list.begun_at.is_not(None))
                .values(failed_at=self.clock())
            )

    def leave(self, partition_key: str, name: str) -> None:
        """Note that the list is another account's now: a planning that was broken off here is nobody's to end."""
        with self.writing() as connection:
            connection.execute(
                update(planned_lists)
                .where(self._is(partition_key, name), _list.begun_at.is_not(None))
                .values(begun_at=None, failed_at=None)
            )

    def unfinished(self, partition_key: str) -> list[UnfinishedList]:
        """The lists whose planning for this day was begun, and broken off, or goes on."""
        with self.reading() as connection:
            rows = connection.execute(
                select(_list.list, _list.failed_at)
                .where(
                    self.in_scope(planned_lists),
                    _list.partition_key == partition_key,
                    _list.begun_at.is_not(None),
                )
                .order_by(_list.list)
            ).all()
        return [UnfinishedList(row.list, row.failed_at is not None) for row in rows]

    def planned(self, partition_key: str) -> list[PlannedList]:
        """The lists of a day that were planned whole, each beside the last day before that had it.

        One that has moved between the accounts is told once, as it was planned last; its pages are those of all.
        """
        columns = (_list.list, _list.targets, _list.pages, _list.beyond_budget, _list.partition_key)
        whole = and_(self.in_scope(planned_lists), _list.planned_at.is_not(None))
        of_day = select(*columns).where(whole, _list.partition_key == partition_key)
        found: dict[str, PlannedList] = {}
        with self.reading() as connection:
            for row in connection.execute(of_day.order_by(_list.list, _list.planned_at.desc())).all():
                if last := found.get(row.list):
                    found[row.list] = replace(last, pages=last.pages + row.pages)
                    continue
                before = connection.execute(
                    select(*columns)
                    .where(whole, _list.list == row.list, _list.partition_key < partition_key)
                    .order_by(_list.partition_key.desc(), _list.planned_at.desc())
                    .limit(1)
                ).first()
                found[row.list] = PlannedList(
                    row.list, row.targets, row.pages, row.beyond_budget,
                    before.partition_key if before else None, before.targets if before else None,
                )  # fmt: skip
        return list(found.values())

    def pages_left(self, partition_key: str, terms: ListTerms) -> int | None:
        """How many more pages the plan of a day may take from a list; None without a budget."""
        with self.reading() as connection:
            return claims_on(connection, self.scope.feed, partition_key, terms).room

    def _is(self, partition_key: str, name: str) -> ColumnElement[bool]:
        return and_(self.in_scope(planned_lists), _list.list == name, _list.partition_key == partition_key)


@dataclass(frozen=True)
class Claims:
    """Which accounts have planned a list for a day, and how many pages its budget leaves; None without a budget.

    A list is of one account, and may move to another: its budget goes with it.
    """

    accounts: tuple[str, ...]
    room: int | None


def claims_on(
    connection: Connection, feed: str, partition_key: str, terms: ListTerms, lock: bool = False
) -> Claims:
    """What was planned of a list so far; with ``lock`` nobody else plans of it meanwhile, for whatever account."""
    month = partition_key[: len("2026-01")]
    span = (
        _list.partition_key.between(f"{month}-01", f"{month}-31")
        if terms.are_bounded
        else _list.partition_key == partition_key
    )
    found = (
        select(_list.account, _list.partition_key, _list.pages)
        .where(_list.feed == feed, _list.list == terms.name, span)
        .order_by(_list.partition_key, _list.account)  # one order for all: concurrent plans can't deadlock
    )
    rows = connection.execute(found.with_for_update() if lock else found).all()
    accounts = tuple(row.account for row in rows if row.partition_key == partition_key)
    of_day = sum(row.pages for row in rows if row.partition_key == partition_key)
    left = []
    if terms.pages_per_day is not None:
        left.append(terms.pages_per_day - of_day)
    if terms.pages_per_month is not None:
        left.append(terms.pages_per_month - sum(row.pages for row in rows))
    return Claims(accounts, max(0, min(left)) if left else None)
