"""The ledger as its users see it: one object whose parts each keep one kind of durable state."""

from functools import cached_property

from sqlalchemy import Engine

from scraper_pipeline.ledger.audit import AuditStore
from scraper_pipeline.ledger.base import Clock, utc_now
from scraper_pipeline.ledger.channels import ChannelStore
from scraper_pipeline.ledger.costs import CostStore
from scraper_pipeline.ledger.database import current_revision, migrate, open_engine, reading
from scraper_pipeline.ledger.foreign import ForeignJobStore
from scraper_pipeline.ledger.inbox import InboxStore
from scraper_pipeline.ledger.leases import LeaseStore
from scraper_pipeline.ledger.letters import LetterStore
from scraper_pipeline.ledger.lists import ListStore
from scraper_pipeline.ledger.news import NewsStore
from scraper_pipeline.ledger.outcomes import OutcomeStore, ResubmissionPolicy
from scraper_pipeline.ledger.pages import PageStore
from scraper_pipeline.ledger.progress import ProgressStore
from scraper_pipeline.ledger.quality import QualityStore
from scraper_pipeline.ledger.records import Scope
from scraper_pipeline.ledger.resubmissions import ResubmissionStore
from scraper_pipeline.ledger.retention import RetentionStore
from scraper_pipeline.ledger.submissions import SubmissionStore
from scraper_pipeline.ledger.sweeps import SweepStore
from scraper_pipeline.ledger.webhooks import WebhookStore


class Ledger:
    """Durable state in one database, within the scope of an account and a feed, or of several accounts to be read.

    ``clock`` gives aware UTC times. Safe to use from several threads; close it when done.
    """

    def __init__(
        self,
        engine: Engine,
        scope: Scope | None = None,
        clock: Clock = utc_now,
        resubmission: ResubmissionPolicy | None = None,
    ) -> None:
        self.engine, self.scope, self.clock = engine, scope or Scope(), clock
        self.resubmission = resubmission or ResubmissionPolicy()

    @classmethod
    def open(
        cls,
        url: str,
        scope: Scope | None = None,
        clock: Clock = utc_now,
        resubmission: ResubmissionPolicy | None = None,
    ) -> "Ledger":
        """Open the database at a SQLAlchemy URL and bring its schema up to date.

        Raises LedgerUnavailable or LedgerTooNew.
        """
        engine = open_engine(url)
        try:
            migrate(engine)
        except BaseException:
            engine.dispose()  # nobody else knows of it, whatever ended the migration
            raise
        return cls(engine, scope, clock, resubmission)

    def of_account(self, *names: str) -> "Ledger":
        """The ledger of an account, or of several to be read. It shares the connections: closing one closes all."""
        if names == self.scope.accounts:
            return self
        account, *beside = names
        return Ledger(
            self.engine, Scope(account, self.scope.feed, tuple(beside)), self.clock, self.resubmission
        )

    @property
    def each(self) -> "tuple[Ledger, ...]":
        """The ledger of each account by itself, where the scope has several."""
        return tuple(self.of_account(name) for name in self.scope.accounts)

    def close(self) -> None:
        self.engine.dispose()

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def revision(self) -> str | None:
        """The revision of the schema, which tells the migrations that were applied."""
        with reading(self.engine) as connection:
            return current_revision(connection)

    @cached_property
    def submissions(self) -> SubmissionStore:
        return SubmissionStore(self.engine, self.scope, self.clock)

    @cached_property
    def lists(self) -> ListStore:
        return ListStore(self.engine, self.scope, self.clock)

    @cached_property
    def news(self) -> NewsStore:
        return NewsStore(self.engine, self.scope, self.clock)

    @cached_property
    def inbox(self) -> InboxStore:
        return InboxStore(self.engine, self.scope, self.clock)

    @cached_property
    def outcomes(self) -> OutcomeStore:
        return OutcomeStore(self.engine, self.scope, self.clock, self.resubmission)

    @cached_property
    def resubmissions(self) -> ResubmissionStore:
        return ResubmissionStore(self.engine, self.scope, self.clock)

    @cached_property
    def progress(self) -> ProgressStore:
        return ProgressStore(self.engine, self.scope, self.clock)

    @cached_property
    def quality(self) -> QualityStore:
        return QualityStore(self.engine, self.scope, self.clock)

    @cached_property
    def costs(self) -> CostStore:
        return CostStore(self.engine, self.scope, self.clock)

    @cached_property
    def letters(self) -> LetterStore:
        return LetterStore(self.engine, self.scope, self.clock)

    @cached_property
    def pages(self) -> PageStore:
        return PageStore(self.engine, self.scope, self.clock)

    @cached_property
    def leases(self) -> LeaseStore:
        return LeaseStore(self.engine, self.scope, self.clock)

    @cached_property
    def channels(self) -> ChannelStore:
        return ChannelStore(self.engine, self.scope, self.clock)

    @cached_property
    def webhooks(self) -> WebhookStore:
        return WebhookStore(self.engine, self.scope, self.clock)

    @cached_property
    def sweeps(self) -> SweepStore:
        return SweepStore(self.engine, self.scope, self.clock)

    @cached_property
    def foreign_jobs(self) -> ForeignJobStore:
        return ForeignJobStore(self.engine, self.scope, self.clock)

    @cached_property
    def retention(self) -> RetentionStore:
        return RetentionStore(self.engine, self.scope, self.clock)

    @cached_property
    def audit(self) -> AuditStore:
        return AuditStore(self.engine, self.scope, self.clock)
