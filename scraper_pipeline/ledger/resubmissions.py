"""Rule 7: settled targets are planned once more, because somebody asked for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, exists, insert, literal, select, update

from scraper_pipeline.ledger.base import StorePart, chunked, in_state
from scraper_pipeline.ledger.letters import IS_DISCARDED, STANDS, of_target
from scraper_pipeline.ledger.records import Kind, State
from scraper_pipeline.ledger.schema import dead_letters, submissions
from scraper_pipeline.ledger.spending import MAY_COST

Which = Literal["failed", "all"]
_row, _letter = submissions.c, dead_letters.c


@dataclass(frozen=True)
class SettledTarget:
    """A target that may be submitted again, as it was read; a given-up one's job might still end after all."""

    row_id: int
    partition_key: str
    target_id: str
    url: str
    job_id: str | None
    state: State
    given_up: bool
    kind: Kind = Kind.EXTRACT
    most_pages: int = 1


class ResubmissionStore(StorePart):
    """Nothing here happens by itself."""

    def settled_targets(
        self, partition_key: str, which: Which, limit: int | None = None
    ) -> list[SettledTarget]:
        """The partition's dead targets ("failed"), or its dead and stored ones ("all"), in the order of planning.

        Without those whose letter was discarded: they are brought back one by one.
        """
        states = (State.DEAD,) if which == "failed" else (State.DEAD, State.STORED)
        return self._read(
            _settled(
                self.in_scope(submissions),
                _row.partition_key == partition_key,
                in_state(*states),
                ~exists().where(of_target(), IS_DISCARDED),
            ).limit(limit)
        )

    def parked_targets(self, letter_ids: Iterable[int]) -> list[SettledTarget]:
        """The dead targets of these letters, open or discarded, of any partition; resolved letters have none."""
        found: list[SettledTarget] = []
        for chunk in chunked(dict.fromkeys(letter_ids)):
            parked = _settled(self.in_scope(submissions), in_state(State.DEAD), STANDS, _letter.id.in_(chunk))
            found += self._read(parked.join(dead_letters, of_target()))
        return found

    def _read(self, settled: Select[Any]) -> list[SettledTarget]:
        with self.reading() as connection:
            rows = connection.execute(settled).all()
        return [
            SettledTarget(
                r.id, r.partition_key, r.target_id, r.url, r.job_id, State(r.state), r.given_up, Kind(r.kind),
                r.most_pages,
            )
            for r in rows
        ]  # fmt: skip

    def resubmit(self, targets: Iterable[SettledTarget]) -> int:
        """Supersede the rows, resolve their letters and plan the next attempt, whose cap counts from there.

        Only rows that are still as they were read change; returns how many did.
        """
        planned = 0
        as_read: dict[tuple[State, bool], list[int]] = {}
        for target in targets:
            as_read.setdefault((target.state, target.given_up), []).append(target.row_id)
        for (state, given_up), row_ids in as_read.items():
            for chunk in chunked(row_ids):
                with self.writing() as connection:
                    planned += self._resubmit(connection, chunk, state, given_up)
        return planned

    def _resubmit(self, connection: Connection, row_ids: list[int], state: State, given_up: bool) -> int:
        now = self.clock()
        moved = connection.execute(
            update(submissions)
            .where(_row.id.in_(row_ids), in_state(state), _row.given_up.is_(given_up))
            .values(state=State.SUPERSEDED)
            .returning(_row.id, _row.partition_key, _row.target_id)
        ).all()
        if not moved:
            return 0
        for partition_key in sorted({row.partition_key for row in moved}):
            connection.execute(
                update(dead_letters)
                .where(
                    self.in_scope(dead_letters),
                    _letter.partition_key == partition_key,
                    _letter.target_id.in_(
                        [row.target_id for row in moved if row.partition_key == partition_key]
                    ),
                    STANDS,
                )
                .values(resolved_at=now, resolution="resubmitted")
            )
        carried = (
            "account", "feed", "partition_key", "target_id", "url", "url_hash", "options", "labels", "kind",
        )  # fmt: skip
        connection.execute(
            insert(submissions).from_select(
                [*carried, "attempt", "first_attempt", "state", "planned_at"],
                select(
                    *(_row[name] for name in carried),
                    _row.attempt + 1,
                    _row.attempt + 1,
                    literal(str(State.PLANNED)),
                    literal(now, _row.planned_at.type),
                ).where(_row.id.in_([row.id for row in moved])),
            )
        )
        self.bump_revisions(connection, [row.partition_key for row in moved])
        return len(moved)


def _settled(*conditions: ColumnElement[bool]) -> Select[Any]:
    columns = (
        _row.id, _row.partition_key, _row.target_id, _row.url, _row.job_id, _row.state, _row.given_up, _row.kind,
    )  # fmt: skip
    return select(*columns, MAY_COST.label("most_pages")).where(*conditions).order_by(_row.id)
