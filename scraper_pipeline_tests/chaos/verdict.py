"""What is left of a run, held against what really happened."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, and_, func, or_, select

from scraper_pipeline.ledger import Ledger, ServiceJob, State, Violation
from scraper_pipeline.ledger.schema import dead_letters, processed_events, results, submissions
from scraper_pipeline.local.demo import fetch_truth
from scraper_pipeline_tests.chaos.service import Service, jobs_of

_row, _event, _result, _letter = submissions.c, processed_events.c, results.c, dead_letters.c
_OPEN = (State.PLANNED, State.SENDING, State.ACCEPTED)
_STORED_TWICE = frozenset({"stored_once", "target_stored_twice"})
_PAID_TWICE = frozenset({"paid_once"})
_LOST = frozenset(
    {"paid_is_stored", "stored_has_result", "dead_has_letter", "acknowledged_is_kept", "target_ended"}
)
# Two of the windows that the design names; listings don't lag beyond the grace here, so the third one is closed.
_MAY_FOLLOW_ANOTHER_PROGRAM = _PAID_TWICE | {"paid_is_stored", "target_stored_twice"}
_MAY_FOLLOW_A_JOB_FOUND_AGAIN = _PAID_TWICE | {"target_stored_twice"}


@dataclass
class Verdict:
    """Violations by what they mean: ``in_windows`` are those that the design names and counts."""

    lost: list[Violation] = field(default_factory=list)
    stored_twice: list[Violation] = field(default_factory=list)
    paid_twice: list[Violation] = field(default_factory=list)
    in_windows: list[Violation] = field(default_factory=list)
    other: list[Violation] = field(default_factory=list)
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def offences(self) -> list[Violation]:
        return [*self.lost, *self.stored_twice, *self.paid_twice, *self.other]

    def add(self, violation: Violation, is_in_window: bool) -> None:
        if is_in_window:
            self.in_windows.append(violation)
        elif violation.rule in _STORED_TWICE:
            self.stored_twice.append(violation)
        elif violation.rule in _PAID_TWICE:
            self.paid_twice.append(violation)
        elif violation.rule in _LOST:
            self.lost.append(violation)
        else:
            self.other.append(violation)


@dataclass(frozen=True)
class Evidence:
    """The service's books, read first, and what the ledger has after that."""

    truth: Mapping[str, Any]
    rows: Sequence[Any]
    news: Mapping[str, Any]
    letters: Sequence[Any]
    pages: Sequence[Any]
    unsettled: Sequence[Any]

    @classmethod
    def gather(cls, ledger: Ledger, service: Service) -> "Evidence":
        truth = service.truth()
        with ledger.engine.connect() as connection:

            def read(statement: Select[Any]) -> Sequence[Any]:
                return connection.execute(statement).all()

            return cls(
                truth=truth,
                rows=read(select(_row.partition_key, _row.target_id, _row.url, _row.state, _row.job_id)),
                news={row.job_id: row.webhook_at for row in read(select(_event.job_id, _event.webhook_at))},
                letters=read(
                    select(_letter.partition_key, _letter.target_id, _letter.error_code, _letter.resolved_at)
                ),
                pages=read(
                    select(
                        *(_result.partition_key, _result.target_id, _result.url),
                        *(_result.markdown, _result.html),
                    )
                ),
                unsettled=read(
                    select(_row.partition_key, _row.target_id)
                    .join(processed_events, _event.job_id == _row.job_id)
                    .where(_event.processed_at.is_(None), _row.state != State.SUPERSEDED)
                ),
            )

    @property
    def bound_jobs(self) -> set[str]:
        return {row.job_id for row in self.rows if row.job_id}


def ended_targets(ledger: Ledger) -> int:
    """How many targets are stored, or dead for good: those not that were given up and that may yet be heard of."""
    has_ended = or_(_row.state == State.STORED, and_(_row.state == State.DEAD, ~_row.given_up))
    with ledger.engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(submissions).where(has_ended)) or 0


def judge(ledger: Ledger, service: Service, targets: Iterable[tuple[str, str]]) -> Verdict:
    """Audit the ledger by itself and against the service's books; ``targets`` are all days with their URLs."""
    evidence = Evidence.gather(ledger, service)
    strangers = service.foreign_jobs - evidence.bound_jobs
    books = [job for job in fetch_truth(service.url) if job.job_id not in strangers]
    verdict = Verdict(figures=_figures(evidence, service, books))
    urls = {(row.partition_key, row.target_id): row.url for row in evidence.rows}
    found_again = {
        (letter.partition_key, letter.target_id) for letter in evidence.letters if letter.error_code == "lost"
    }
    violations = [
        *ledger.audit.check(),
        *ledger.audit.check_against(books),
        *_unended(evidence, targets),
        *_stored_wrongly(evidence),
        *_forgotten_news(evidence),
    ]

    def concerned(violation: Violation) -> tuple[tuple[str, str], str | None]:
        whom = (violation.partition_key or "", violation.target_id or "")
        return whom, urls.get(whom) or _url_of_job(violation, books)

    paid_twice = {concerned(violation)[1] for violation in violations if violation.rule in _PAID_TWICE}
    for violation in violations:
        whom, url = concerned(violation)
        if violation.rule == "paid_is_stored" and url in paid_twice:
            continue  # not lost: it is the other one of two that were paid
        verdict.add(
            violation,
            (url in service.foreign_urls and violation.rule in _MAY_FOLLOW_ANOTHER_PROGRAM)
            or (whom in found_again and violation.rule in _MAY_FOLLOW_A_JOB_FOUND_AGAIN),
        )
    return verdict


def _unended(evidence: Evidence, targets: Iterable[tuple[str, str]]) -> Iterator[Violation]:
    states: dict[tuple[str, str], list[str]] = {}
    for row in evidence.rows:
        if row.state != State.SUPERSEDED:
            states.setdefault((row.partition_key, row.url), []).append(row.state)
    for day, url in sorted(targets):
        found = states.get((day, url), [])
        if len(found) != 1 or found[0] in _OPEN:
            yield Violation("target_ended", day, url, f"the target is {found or 'not there'}")


def _stored_wrongly(evidence: Evidence) -> Iterator[Violation]:
    """Targets with several results, and pages other than asked for: each has its number in its text."""
    for (day, target_id), count in Counter(
        (page.partition_key, page.target_id) for page in evidence.pages
    ).items():
        if count > 1:
            yield Violation("target_stored_twice", day, target_id, f"the target is stored {count} times")
    for page in evidence.pages:
        kind, _, number = page.url.partition("/site/")[2].partition("/")
        if kind in ("pages", "flaky") and f"({number})" not in (page.markdown or page.html or ""):
            detail = f"what is stored is not {page.url}"
            yield Violation("page_is_its_own", page.partition_key, page.target_id, detail)


def _forgotten_news(evidence: Evidence) -> Iterator[Violation]:
    for row in evidence.unsettled:
        yield Violation("news_is_settled", row.partition_key, row.target_id, "its job's news is not settled")
    for job in jobs_of(evidence.truth):
        if job["deliveries"]["acknowledged"] and evidence.news.get(job["job_id"]) is None:
            detail = f"a delivery of job {job['job_id']} was acknowledged, and the ledger knows nothing of it"
            yield Violation("acknowledged_is_kept", None, None, detail)


def _url_of_job(violation: Violation, books: Iterable[ServiceJob]) -> str | None:
    """The URL of a job that no row is bound to, and that the audit names in its text alone."""
    return next((job.url for job in books if job.job_id in violation.detail), None)


def _figures(evidence: Evidence, service: Service, books: Sequence[ServiceJob]) -> dict[str, Any]:
    truth, letters = evidence.truth, evidence.letters
    jobs = jobs_of(truth)
    return {
        "jobs": len(jobs),
        "faults": truth["faults_struck"],
        "requests": sum(truth["requests"].values()),
        "deliveries": sum(job["deliveries"]["attempts"] for job in jobs),
        "deliveries_acknowledged": sum(job["deliveries"]["acknowledged"] for job in jobs),
        "jobs_of_another_program_taken_for_ours": len(service.foreign_jobs & evidence.bound_jobs),
        "stored": len(evidence.pages),
        "pages_paid": sum(job.charged for job in books),
        "resubmitted": sum(row.state == State.SUPERSEDED for row in evidence.rows),
        "dead_letters": _count(letter.error_code for letter in letters if letter.resolved_at is None),
        "given_up_and_stored_after_all": _count(
            letter.error_code for letter in letters if letter.resolved_at is not None
        ),
    }


def _count(codes: Iterable[str]) -> dict[str, int]:
    return dict(Counter(codes))
