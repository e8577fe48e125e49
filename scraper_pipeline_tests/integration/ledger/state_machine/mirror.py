"""A real ledger of which each transition is made on the model as well: what it returns must be what the model says.

Whoever is given one, code of the product included, is checked without knowing it. A transition that raises leaves the
model as it was.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from scraper_pipeline.ledger import (
    AcceptedSubmission,
    Allowance,
    BatchTerms,
    Channel,
    ClaimedJob,
    ClaimedSubmission,
    CommitReport,
    Delivery,
    DueJob,
    InboxStore,
    JobOutcome,
    Kind,
    Ledger,
    OverdueSubmission,
    PlanReport,
    QuarantinedBody,
    RefusedSubmission,
    SettledTarget,
    Target,
    Which,
)
from scraper_pipeline.ledger.lists import ListTerms
from scraper_pipeline.ledger.news import NewsStore
from scraper_pipeline.ledger.outcomes import OutcomeStore
from scraper_pipeline.ledger.resubmissions import ResubmissionStore
from scraper_pipeline.ledger.submissions import SubmissionStore
from scraper_pipeline_tests.integration.ledger.state_machine.branches import (
    note_claim,
    note_commit,
    note_resolution,
    reach,
)
from scraper_pipeline_tests.integration.ledger.state_machine.claiming import Claim
from scraper_pipeline_tests.integration.ledger.state_machine.evidence import Evidence
from scraper_pipeline_tests.integration.ledger.state_machine.model import Model
from scraper_pipeline_tests.integration.ledger.state_machine.rows import Row
from scraper_pipeline_tests.integration.ledger.state_machine.settling import commit


class MirroredLedger(Ledger):
    """The ledger as one actor sees it; ``evidence`` is what the service has told that actor."""

    def __init__(self, ledger: Ledger, model: Model, evidence: Evidence) -> None:
        super().__init__(ledger.engine, ledger.scope, ledger.clock, ledger.resubmission)
        self.model, self.evidence, self._behind = model, evidence, ledger

    @cached_property
    def submissions(self) -> SubmissionStore:
        return MirroredSubmissions(self.engine, self.scope, self.clock, self.model, self.evidence)

    @cached_property
    def news(self) -> NewsStore:
        return MirroredNews(self.engine, self.scope, self.clock, self.model)

    @cached_property
    def inbox(self) -> InboxStore:
        return MirroredInbox(self.engine, self.scope, self.clock, self.model, self._behind.inbox)

    @cached_property
    def outcomes(self) -> OutcomeStore:
        return MirroredOutcomes(
            self.engine, self.scope, self.clock, self.resubmission, self.model, evidence=self.evidence
        )

    @cached_property
    def resubmissions(self) -> ResubmissionStore:
        return MirroredResubmissions(self.engine, self.scope, self.clock, self.model, self.evidence)


@dataclass(frozen=True)
class MirroredSubmissions(SubmissionStore):
    model: Model
    evidence: Evidence

    def _plan(self, partition_key: str, chunk: Sequence[Target], terms: ListTerms) -> PlanReport:
        """One transaction of a plan, which may be broken off before it notes that all of the list is there."""
        report = super()._plan(partition_key, chunk, terms)
        planned = self.model.plan(partition_key, chunk)
        assert report == PlanReport(planned, len(chunk) - planned)
        return report

    def claim(
        self,
        partition_key: str,
        limit: int,
        lease_seconds: float,
        terms: BatchTerms | None = None,
        allowance: Allowance | None = None,
    ) -> list[ClaimedSubmission]:
        claim = Claim(self.model, partition_key, limit, terms, self.clock())
        claimed = super().claim(partition_key, limit, lease_seconds, terms, allowance)
        note_claim(claim, claimed)
        claim.make(claimed)
        return claimed

    def record_accepted(self, accepted: Sequence[AcceptedSubmission], first_look_at: datetime) -> int:
        moved = super().record_accepted(accepted, first_look_at)
        assert moved == self.model.accept(accepted, first_look_at)
        if moved and any(answer.invalid for answer in accepted):
            reach("accepted: a batch without what is invalid")
        return moved

    def record_refused(self, refused: Sequence[RefusedSubmission]) -> int:
        parked = super().record_refused(refused)
        assert parked == self.model.refuse(refused)
        return parked

    def release(self, request_ids: Iterable[str]) -> int:
        request_ids = list(request_ids)
        released = super().release(request_ids)
        assert released == self.model.release(request_ids)
        return released

    def set_apart(self, request_ids: Iterable[str]) -> int:
        request_ids = list(request_ids)
        apart = super().set_apart(request_ids)
        assert apart == self.model.set_apart(request_ids)
        if apart:
            reach("refused: a batch as a whole")
        return apart

    def overdue(self, grace_seconds: float) -> list[OverdueSubmission]:
        found = super().overdue(grace_seconds)
        expected = self.model.overdue(grace_seconds, self.clock())
        assert {row.request_id for row in found} == {row.request_id for row in expected}
        self.evidence.read(found, grace_seconds)
        return found

    def bound_jobs(self, job_ids: Iterable[str]) -> set[str]:
        job_ids = list(job_ids)
        found = super().bound_jobs(job_ids)
        assert found == {job_id for job_id in job_ids if self.model.bound(job_id)}
        self.evidence.bound |= found
        return found

    def resolve(
        self,
        request_id: str,
        job_id: str,
        first_look_at: datetime,
        grace_seconds: float,
        kind: str = Kind.EXTRACT,
    ) -> bool:
        self.evidence.check_resolution(request_id, job_id)
        changed = super().resolve(request_id, job_id, first_look_at, grace_seconds, kind)
        note_resolution(self.evidence, request_id, job_id, changed)
        assert changed == self.model.resolve(
            request_id, job_id, first_look_at, grace_seconds, self.clock(), kind
        )
        return changed

    def give_up_unresolved(self, request_ids: Iterable[str], message: str) -> int:
        request_ids = list(request_ids)
        self.evidence.check_unresolved(request_ids, self.clock())
        parked = super().give_up_unresolved(request_ids, message)
        assert parked == self.model.give_up_unresolved(request_ids)
        return parked


@dataclass(frozen=True)
class MirroredNews(NewsStore):
    model: Model

    def record(self, job_ids: Iterable[str], channel: Channel) -> None:
        job_ids = list(job_ids)
        super().record(job_ids, channel)
        self.model.hear(job_ids, channel, self.clock())

    def request_settlement(self, job_ids: Iterable[str]) -> None:
        job_ids = list(job_ids)
        super().request_settlement(job_ids)
        self.model.hear(job_ids, None, self.clock())

    def take_due_jobs(self, limit: int) -> list[DueJob]:
        taken = super().take_due_jobs(limit)
        self.model.take_due(limit, taken, self.clock())
        return taken

    def schedule_looks(self, looks: Mapping[str, datetime | None], statuses: Mapping[str, str]) -> None:
        super().schedule_looks(looks, statuses)
        self.model.schedule_looks(looks)


@dataclass(frozen=True)
class MirroredInbox(InboxStore):
    model: Model
    behind: InboxStore  # one for all examples: it may keep a connection of its own

    def commit(
        self, deliveries: Sequence[Delivery], quarantined: Sequence[QuarantinedBody] = ()
    ) -> list[bool]:
        is_first = self.behind.commit(deliveries, quarantined)
        assert is_first == self.model.hear([one.job_id for one in deliveries], Channel.WEBHOOK, self.clock())
        return is_first


@dataclass(frozen=True)
class MirroredOutcomes(OutcomeStore):
    model: Model = field(default_factory=Model)
    evidence: Evidence = field(kw_only=True)

    def claim(
        self,
        partition_key: str,
        limit: int,
        lease_seconds: float,
        kinds: Collection[str] = (Kind.EXTRACT,),
    ) -> list[ClaimedJob]:
        open_jobs = self.model.open_jobs(partition_key, self.clock(), kinds)
        claimed = super().claim(partition_key, limit, lease_seconds, kinds)
        self.model.claim_jobs(claimed, open_jobs, limit, lease_seconds, self.clock())
        return claimed

    def waiting_items(self, job_id: str) -> dict[str, str]:
        waiting = super().waiting_items(job_id)
        assert waiting == self.model.waiting_items(job_id)
        return waiting

    def release(self, claimed: Iterable[ClaimedJob]) -> None:
        claimed = list(claimed)
        super().release(claimed)
        self.model.release_jobs(claimed, self.clock())

    def commit(self, outcomes: Sequence[JobOutcome]) -> CommitReport:
        self.evidence.check_outcomes(outcomes, self.model, self.clock())
        report = super().commit(outcomes)
        note_commit(outcomes, self.model)
        assert report == commit(self.model, self.resubmission, outcomes, self.clock())
        return report


@dataclass(frozen=True)
class MirroredResubmissions(ResubmissionStore):
    model: Model
    evidence: Evidence
    as_read: dict[int, Row] = field(default_factory=dict)

    def settled_targets(
        self, partition_key: str, which: Which, limit: int | None = None
    ) -> list[SettledTarget]:
        found = super().settled_targets(partition_key, which, limit)
        for target in found:
            row = self.model.rows[partition_key, target.target_id][-1]
            assert (row.state, row.given_up, row.job_id) == (target.state, target.given_up, target.job_id)
            self.as_read[target.row_id] = row
        return found

    def resubmit(self, targets: Iterable[SettledTarget]) -> int:
        targets = list(targets)
        self.evidence.check_resubmission(targets)
        moved = super().resubmit(targets)
        rows = [(self.as_read[target.row_id], target.state, target.given_up) for target in targets]
        assert moved == self.model.resubmit(rows)
        if moved and any(target.given_up and target.kind is Kind.BATCH for target in targets):
            reach("resubmitted: a row of a batch that was lost")
        return moved
