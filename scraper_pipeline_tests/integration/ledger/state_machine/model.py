"""What a ledger must hold, in plain memory: rows, letters, results, news and jobs, changed by the rules alone.

A job may have any number of rows; an item of its outcome belongs to the row with its ``item_key``. What a claim of rows
changes stands in ``claiming``, and what a commit of outcomes does in ``settling``.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from scraper_pipeline.ledger import (
    AcceptedSubmission,
    ClaimedJob,
    DueJob,
    Kind,
    RefusedSubmission,
    State,
    Target,
    hash_url,
)
from scraper_pipeline_tests.integration.ledger.state_machine.rows import (
    ACCEPTED,
    DEAD,
    PLANNED,
    SENDING,
    SUPERSEDED,
    BoundJob,
    Letter,
    News,
    Row,
    RowKey,
)

CHANNELS = ("webhook", "poll", "delivery_log", "sweep")
LOOK_LEASE = timedelta(seconds=30)


@dataclass
class Model:
    """The whole ledger of one account and feed."""

    rows: dict[RowKey, list[Row]] = field(default_factory=dict)
    letters: list[Letter] = field(default_factory=list)
    results: dict[tuple[str, str], tuple[str, str, int]] = field(default_factory=dict)
    news: dict[str, News] = field(default_factory=dict)
    jobs: dict[str, BoundJob] = field(default_factory=dict)
    requests_used: set[str] = field(default_factory=set)
    unresolved_requests: set[str] = field(default_factory=set)
    lost_and_resubmitted: set[tuple[str, str]] = field(default_factory=set)

    def all_rows(self, *states: State) -> list[Row]:
        return [r for attempts in self.rows.values() for r in attempts if not states or r.state in states]

    def newest(self) -> list[Row]:
        return [attempts[-1] for attempts in self.rows.values()]

    def bound(self, job_id: str | None) -> list[Row]:
        return [row for row in self.all_rows() if job_id is not None and row.job_id == job_id]

    def _mine(self, request_id: str) -> list[Row]:
        return [row for row in self.all_rows(SENDING) if row.request_id == request_id]

    def plan(self, partition_key: str, targets: Iterable[Target]) -> int:
        planned = 0
        for target in sorted(targets, key=lambda target: target.target_id):
            key = (partition_key, target.target_id)
            if key not in self.rows:
                self.rows[key] = [Row(*key, target.url, target.options)]
                planned += 1
        return planned

    def claimable(self, partition_key: str, now: datetime) -> set[str]:
        """The URLs that a claim may take a row of."""
        sending = {row.url for row in self.all_rows(SENDING)}
        return {row.url for row in self.due(partition_key, now)} - sending

    def due(self, partition_key: str, now: datetime) -> list[Row]:
        return [
            row
            for row in self.all_rows(PLANNED)
            if row.partition_key == partition_key and (row.not_before is None or row.not_before <= now)
        ]

    def accept(self, accepted: Iterable[AcceptedSubmission], first_look_at: datetime) -> int:
        """Rule 2: all of a request's rows are bound to its job, unless another request holds that.

        Those that the service left out as invalid are parked in the same breath.
        """
        moved = 0
        for answer in accepted:
            if any(row.request_id != answer.request_id for row in self.bound(answer.job_id)):
                continue
            for row in self._mine(answer.request_id):
                row.state, row.job_id, row.item_key = ACCEPTED, answer.job_id, hash_url(row.url)
                row.lease_until = None
                job = BoundJob(row.partition_key, first_look_at, answer.kind)
                self.jobs.setdefault(answer.job_id, job)
                moved += 1
                if row.item_key in answer.invalid:
                    self._park(row, "INVALID_URL")
        return moved

    def refuse(self, refused: Iterable[RefusedSubmission]) -> int:
        return sum(self._park(row, one.code) for one in refused for row in self._mine(one.request_id))

    def give_up_unresolved(self, request_ids: Iterable[str]) -> int:
        parked = [row for request_id in request_ids for row in self._mine(request_id)]
        self.unresolved_requests.update(row.request_id or "" for row in parked)
        return sum(self._park(row, "unresolved") for row in parked)

    def _park(self, row: Row, code: str) -> int:
        row.state, row.lease_until = DEAD, None
        self.letters.append(Letter(row.key, code))
        return 1

    def release(self, request_ids: Iterable[str]) -> int:
        return len(self._plan_again(request_ids))

    def set_apart(self, request_ids: Iterable[str]) -> int:
        """Rule 2: a batch that was refused as a whole is planned again, each of its rows for a request of its own."""
        apart = self._plan_again(request_ids)
        for row in apart:
            row.kind = Kind.ALONE
        return len(apart)

    def _plan_again(self, request_ids: Iterable[str]) -> list[Row]:
        rows = [row for request_id in request_ids for row in self._mine(request_id)]
        for row in rows:
            row.state, row.request_id, row.sent_at, row.lease_until = PLANNED, None, None, None
        return rows

    def overdue(self, grace_seconds: float, now: datetime) -> list[Row]:
        before = now - timedelta(seconds=grace_seconds)
        return [row for row in self.all_rows(SENDING) if row.lease_until and row.lease_until < before]

    def resolve(
        self, request_id: str, job_id: str, first_look_at: datetime, grace: float, now: datetime, kind: str
    ) -> bool:
        """Rule 5: what a listing said counts for rows that are still sending under that request and overdue."""
        if not any(row.request_id == request_id for row in self.overdue(grace, now)):
            return False
        if job_id != "none":
            return self.accept([AcceptedSubmission(request_id, job_id, kind)], first_look_at) > 0
        planned_again = self._plan_again([request_id])
        for row in planned_again:
            row.kind = Kind.ALONE if row.kind is Kind.BATCH else row.kind
        return bool(planned_again)

    def hear(self, job_ids: Iterable[str], channel: str | None, now: datetime) -> list[bool]:
        """Note news of jobs (no channel: a look is asked for); for each, whether it is the channel's first."""
        first = []
        for job_id in job_ids:
            news = self.news.setdefault(job_id, News(now))
            first.append(channel is not None and channel not in news.channels)
            if channel is not None:
                news.channels.setdefault(channel, now)
                if news.given_up:
                    news.given_up, news.available_at = False, now
        return first

    def open_jobs(self, partition_key: str, now: datetime, kinds: Collection[str]) -> set[str]:
        return {
            job_id
            for job_id, news in self.news.items()
            if job_id in self.jobs
            and self.jobs[job_id].partition_key == partition_key
            and self.jobs[job_id].kind in kinds
            and not (news.processed or news.given_up)
            and news.available_at <= now
        }

    def claim_jobs(
        self, claimed: Sequence[ClaimedJob], open_jobs: set[str], limit: int, lease: float, now: datetime
    ) -> None:
        """Rule 3: bound jobs with open news that nobody holds, as many as may be."""
        taken = {job.job_id for job in claimed}
        assert taken <= open_jobs, f"{sorted(taken - open_jobs)} were not to be settled"
        assert len(claimed) == len(taken) == min(limit, len(open_jobs))
        for job in claimed:
            news, known = self.news[job.job_id], self.jobs[job.job_id]
            news.tries += 1
            assert job.item_key in {row.item_key for row in self.bound(job.job_id)}
            assert (job.kind, job.missing_since) == (known.kind, known.missing_since)
            assert (job.tries, job.pages_read) == (news.tries, known.pages_read)
            assert (job.reported_at is not None) == bool(news.channels)
            news.claimed_by, news.available_at = job.claim, now + timedelta(seconds=lease)

    def release_jobs(self, claimed: Iterable[ClaimedJob], now: datetime) -> None:
        for job in claimed:
            news = self.news[job.job_id]
            if news.claimed_by == job.claim and not news.processed:
                news.claimed_by, news.available_at = None, now
                news.tries -= 1

    def is_held(self, job: ClaimedJob) -> bool:
        """Whether the claim still counts: what was found under any other is dropped."""
        news = self.news[job.job_id]
        return news.claimed_by == job.claim and not (news.processed or news.given_up)

    def waiting_items(self, job_id: str) -> dict[str, str]:
        """The items that an outcome of the job would still change a row of: their keys and URLs."""
        return {row.item_key or "": row.url for row in self.bound(job_id) if row.is_waiting}

    def due_jobs(self, now: datetime) -> set[str]:
        return {j for j, job in self.jobs.items() if job.next_look_at and job.next_look_at <= now}

    def take_due(self, limit: int, taken: Sequence[DueJob], now: datetime) -> None:
        due = self.due_jobs(now)
        found = {job.job_id for job in taken}
        assert found <= due, f"{sorted(found - due)} were not due"
        assert len(found) == min(limit, len(due))
        for job in taken:
            news = self.news.get(job.job_id)
            assert (job.kind, job.given_up) == (self.jobs[job.job_id].kind, bool(news and news.given_up))
            self.jobs[job.job_id].next_look_at = now + LOOK_LEASE

    def schedule_looks(self, looks: Mapping[str, datetime | None]) -> None:
        for job_id, look_at in looks.items():
            self.jobs[job_id].next_look_at = look_at

    def resubmit(self, rows: Iterable[tuple[Row, State, bool]]) -> int:
        """Rule 7: rows that are still as they were read give way to another attempt, whose cap counts anew."""
        moved = 0
        for row, state, given_up in rows:
            if (row.state, row.given_up) == (state, given_up):
                if given_up and row.job_id and row.item_key:
                    self.lost_and_resubmitted.add((row.job_id, row.item_key))
                self.resolve_letter(row, "resubmitted")
                self.supersede(row, first_attempt=row.attempt + 1)
                moved += 1
        return moved

    def supersede(self, row: Row, first_attempt: int, not_before: datetime | None = None) -> None:
        row.state = SUPERSEDED
        following = Row(*row.key, row.url, row.options, row.kind, row.attempt + 1, first_attempt)
        following.not_before = not_before
        self.rows[row.key].append(following)

    def open_letter(self, row: Row) -> Letter | None:
        return next((one for one in self.letters if one.key == row.key and one.resolution is None), None)

    def resolve_letter(self, row: Row, resolution: str) -> None:
        if letter := self.open_letter(row):
            letter.resolution = resolution

    def contents(self) -> dict[str, Counter[tuple[object, ...]]]:
        """Everything, in the form in which ``comparison`` reads a ledger."""
        return {
            "submissions": Counter(
                (r.partition_key, r.target_id, r.attempt, r.first_attempt, r.url, str(r.kind), str(r.state),
                 r.not_before, r.request_id, r.sent_at, r.lease_until, r.job_id, r.item_key, r.given_up)
                for r in self.all_rows()
            ),
            "dead_letters": Counter((*one.key, str(one.code), one.resolution) for one in self.letters),
            "results": Counter((*key, *of) for key, of in self.results.items()),
            "processed_events": Counter(
                (job_id, *(news.channels.get(channel) for channel in CHANNELS),
                 news.available_at, news.tries, news.claimed_by, news.given_up, news.processed)
                for job_id, news in self.news.items()
            ),
            "jobs": Counter(
                (job_id, job.partition_key, str(job.kind), job.next_look_at, job.missing_since, job.pages_read)
                for job_id, job in self.jobs.items()
            ),
        }  # fmt: skip
