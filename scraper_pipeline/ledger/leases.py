"""Heartbeats of runs: whoever holds a lease is working on a partition, whatever Dagster's run status says."""

from datetime import timedelta

from sqlalchemy import delete, or_, select

from scraper_pipeline.ledger.base import StorePart
from scraper_pipeline.ledger.schema import run_leases

_lease = run_leases.c


class LeaseStore(StorePart):
    """A lease prevents needless overlap; nothing depends on it for correctness."""

    def take(self, name: str, partition_key: str, holder: str, seconds: float, force: bool = False) -> bool:
        """Hold or prolong a lease; False if another holder's is still live (``force`` takes it all the same)."""
        now = self.clock()
        row = {
            **self.scope_values,
            "name": name,
            "partition_key": partition_key,
            "holder": holder,
            "expires_at": now + timedelta(seconds=seconds),
        }
        statement = self.insert(run_leases).values(row)
        free = None if force else or_(_lease.expires_at <= now, _lease.holder == holder)
        with self.writing() as connection:
            taken = connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["name", "account", "feed", "partition_key"],
                    set_={"holder": statement.excluded.holder, "expires_at": statement.excluded.expires_at},
                    where=free,
                ).returning(_lease.holder)
            ).all()
        return bool(taken)

    def drop(self, name: str, partition_key: str, holder: str) -> None:
        """Give the lease up if this holder still has it."""
        with self.writing() as connection:
            connection.execute(
                delete(run_leases).where(
                    self.in_scope(run_leases),
                    _lease.name == name,
                    _lease.partition_key == partition_key,
                    _lease.holder == holder,
                )
            )

    def live(self, name: str) -> set[str]:
        """The partitions for which somebody holds this lease now."""
        with self.reading() as connection:
            return set(
                connection.scalars(
                    select(_lease.partition_key).where(
                        self.in_scope(run_leases), _lease.name == name, _lease.expires_at > self.clock()
                    )
                )
            )
