"""Targets become planned rows: the first attempt of each, once for a day, within its list's budget."""

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, and_, select, update

from scraper_pipeline.ledger.base import StorePart, chunked
from scraper_pipeline.ledger.lists import DEFAULT_LIST, ListStore, ListTerms, claims_on
from scraper_pipeline.ledger.records import Kind, PlanReport, State, Target, hash_url
from scraper_pipeline.ledger.schema import partitions, planned_lists, submissions

_row, _list = submissions.c, planned_lists.c


class PlanningStore(StorePart):
    """The life of a submission up to the moment when it may be sent."""

    def plan(
        self, partition_key: str, targets: Iterable[Target], terms: ListTerms | None = None
    ) -> PlanReport:
        """Write the first attempt of every target that the partition doesn't have yet; never withdraws one.

        The targets are read and committed in chunks, so a list of any length fits in memory. Only once the last one
        is committed does the partition count as planned, and the list as planned for it. What the list's budget has
        no room for is left out: it is no part of the day. What the partition has of this list from another account,
        which the list was of before, stays with that one, and counts as known.
        """
        terms, report = terms or ListTerms(), PlanReport(0, 0)
        ListStore(self.engine, self.scope, self.clock).begin(partition_key, terms.name)
        chunks = chunked(targets)
        chunk = next(chunks, [])
        while chunk:
            following = next(chunks, [])
            report += self._plan(partition_key, chunk, terms)
            chunk = following
        self._finish(partition_key, terms, report)
        return report

    def planned_targets(
        self, partition_key: str, target_ids: Iterable[str], of_list: str = DEFAULT_LIST
    ) -> set[str]:
        """Those of the targets of a list that the partition has already."""
        with self.reading() as connection:
            claims = claims_on(connection, self.scope.feed, partition_key, ListTerms(of_list))
            accounts = {self.scope.account, *claims.accounts}
            return self._known(connection, partition_key, target_ids, accounts)

    def _plan(self, partition_key: str, chunk: Sequence[Target], terms: ListTerms) -> PlanReport:
        with self.writing() as connection:
            claims = claims_on(connection, self.scope.feed, partition_key, terms, lock=True)
            others = set(claims.accounts) - {self.scope.account}
            left = self._known(connection, partition_key, _ids(chunk), others)
            ours = [target for target in chunk if target.target_id not in left]
            kept = self._within(claims.room, connection, partition_key, ours)
            rows = [self._first_attempt(partition_key, target) for target in kept]
            rows.sort(
                key=lambda row: str(row["target_id"])
            )  # one order for all: concurrent plans can't deadlock
            inserted = self._insert(connection, rows)
            if inserted:
                may_cost = {target.target_id: target.most_pages for target in kept}
                pages = sum(may_cost[target_id] for target_id in inserted)
                connection.execute(
                    update(planned_lists)
                    .where(self._is(partition_key, terms))
                    .values(pages=_list.pages + pages)
                )
                self.bump_revisions(connection, [partition_key])
        beyond = len(ours) - len(kept)
        return PlanReport(len(inserted), len(chunk) - beyond - len(inserted), beyond)

    def _insert(self, connection: Connection, rows: Sequence[dict[str, object]]) -> Sequence[str]:
        """Write the rows that are new; returns their targets."""
        if not rows:
            return []
        statement = self.insert(submissions).on_conflict_do_nothing().returning(_row.target_id)
        return connection.scalars(statement, rows).all()

    def _within(
        self, room: int | None, connection: Connection, partition_key: str, chunk: Sequence[Target]
    ) -> Sequence[Target]:
        """Those of the targets, in their order, that are planned already or that there is room for."""
        if room is None:
            return chunk
        known = self._known(connection, partition_key, _ids(chunk), {self.scope.account})
        kept = []
        for target in chunk:
            if target.target_id not in known:
                if target.most_pages > room:
                    continue
                room -= target.most_pages
                known.add(target.target_id)
            kept.append(target)
        return kept

    def _known(
        self, connection: Connection, partition_key: str, target_ids: Iterable[str], accounts: Collection[str]
    ) -> set[str]:
        known: set[str] = set()
        for chunk in chunked(target_ids) if accounts else ():
            known.update(
                connection.scalars(
                    select(_row.target_id).where(
                        _row.account.in_(accounts),
                        _row.feed == self.scope.feed,
                        _row.partition_key == partition_key,
                        _row.target_id.in_(chunk),
                        _row.attempt == 1,
                    )
                )
            )
        return known

    def _finish(self, partition_key: str, terms: ListTerms, report: PlanReport) -> None:
        now = self.clock()
        with self.writing() as connection:
            connection.execute(
                update(planned_lists)
                .where(self._is(partition_key, terms))
                .values(
                    begun_at=None,
                    failed_at=None,
                    planned_at=now,
                    targets=report.targets,
                    beyond_budget=report.beyond_budget,
                )
            )
            connection.execute(
                update(partitions)
                .where(self.in_scope(partitions), partitions.c.partition_key == partition_key)
                .values(planned_at=now)
            )

    def _is(self, partition_key: str, terms: ListTerms) -> ColumnElement[bool]:
        return and_(
            self.in_scope(planned_lists), _list.list == terms.name, _list.partition_key == partition_key
        )

    def _first_attempt(self, partition_key: str, target: Target) -> dict[str, object]:
        return {
            **self.scope_values,
            "partition_key": partition_key,
            "target_id": target.target_id,
            "attempt": 1,
            "url": target.url,
            "url_hash": hash_url(target.url),
            "options": dict(target.options),
            "labels": dict(target.labels),
            "kind": Kind.CRAWL if target.is_crawl else Kind.EXTRACT,
            "state": State.PLANNED,
            "planned_at": self.clock(),
        }


def _ids(targets: Iterable[Target]) -> list[str]:
    return [target.target_id for target in targets]
