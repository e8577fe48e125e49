"""One page, submitted as the pipeline does it, to see how the service spells what it tells of it."""

import asyncio
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scraper_pipeline.checkup.findings import Finding, Subject
from scraper_pipeline.ledger import mark_url, unmark_url
from scraper_pipeline.scraper_api import JSON, TERMINAL_STATUSES, JobNotFound, ScraperClient
from scraper_pipeline.settings import Settings

_CONTRACT, _LISTING = Subject("contract"), Subject("listing")
_JOB_FIELDS = (
    "job_id",
    "status",
    "created_at",
    "completed_at",
    "data",
    "metadata",
    "error",
    "tokens_charged",
)
_LINE_FIELDS = ("job_id", "status", "url", "created_at")
_NEEDED = frozenset({"job_id", "status", "url", "data"})
_READ_KEYS = ("jobs", "items")
_NO_SETTING = "No setting changes this: please report it, with the release."


@dataclass(frozen=True)
class Trial:
    """The page that is paid, for how long it is waited for (seconds), and the pause between two looks."""

    url: str = "https://example.com/"
    wait: float = 120.0
    pause: float = 1.0


@dataclass
class SeenPage:
    """A page on its way: answers as they came, and after how many seconds. What is None was not seen in time."""

    job_id: str
    sent_url: str
    sent_at: float
    job: Mapping[str, JSON] = field(default_factory=dict, repr=False)
    ended_after: float | None = None
    listing_keys: tuple[str, ...] = ()
    listing_key: str | None = None
    line: Mapping[str, JSON] | None = field(default=None, repr=False)
    listed_after: float | None = None


async def submit_page(client: ScraperClient, url: str) -> SeenPage:
    """Submit the URL, marked as by SCRAPER_MARK_URLS to see whether it comes back unchanged. Raises ScraperError."""
    marked = mark_url(url, f"doctor-{secrets.token_hex(8)}")
    sent_at = time.monotonic()
    accepted = await client.submit_extract(marked)
    return SeenPage(accepted.job_id, marked, sent_at)


async def follow_page(client: ScraperClient, page: SeenPage, trial: Trial) -> None:
    """Look at the job and at the listing until both have told all, or the wait is over. Raises ScraperError."""
    while True:
        if page.ended_after is None:
            await _look_at_job(client, page)
        if page.line is None:
            await _look_at_listing(client, page)
        is_over = time.monotonic() - page.sent_at >= trial.wait
        if is_over or (page.ended_after is not None and page.line is not None):
            return
        await asyncio.sleep(trial.pause)


async def _look_at_job(client: ScraperClient, page: SeenPage) -> None:
    try:
        page.job = await client.get_raw_job(page.job_id)
    except JobNotFound:  # not shown yet
        return
    if page.job.get("status") in TERMINAL_STATUSES:
        page.ended_after = time.monotonic() - page.sent_at


async def _look_at_listing(client: ScraperClient, page: SeenPage) -> None:
    listing = await client.get_raw_listing(page.job_id)
    page.listing_keys = tuple(listing)
    for key, lines in listing.items():
        for line in lines if isinstance(lines, list) else ():
            if isinstance(line, dict) and page.job_id in line.values():
                page.listing_key, page.line = key, line
                page.listed_after = time.monotonic() - page.sent_at
                return


def judge_page(page: SeenPage, settings: Settings) -> list[Finding]:
    """Whether the pipeline, as it is set, reads what the service says of a job."""
    return [*_judge_job(page), *_judge_listing(page, settings)]


def _judge_job(page: SeenPage) -> list[Finding]:
    if page.ended_after is None:
        return [
            _CONTRACT.warning(
                f"Job {page.job_id} had not ended when the wait was over.",
                "Wait longer by --wait, or try another --url.",
            )
        ]
    found = [_judge_fields(page.job, _JOB_FIELDS, _CONTRACT, "An ended job")]
    if page.job.get("status") != "completed":
        error = page.job.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        found.append(
            _CONTRACT.warning(
                f"The page could not be had ({page.job.get('status')}, {code or 'without a code'}), so that no content "
                "was seen.",
                "Try another --url.",
            )
        )
    elif not isinstance(data := page.job.get("data"), dict) or not isinstance(data.get("markdown"), str):
        found.append(_CONTRACT.problem("A completed job has no text at `data.markdown`.", _NO_SETTING))
    else:
        charged = page.job.get("tokens_charged")
        found.append(
            _CONTRACT.ok(f"The page came after {page.ended_after:.1f} s, and was charged as {charged}.")
        )
    return found


def _judge_listing(page: SeenPage, settings: Settings) -> list[Finding]:
    if page.line is None or page.listed_after is None:
        return [
            _LISTING.problem(
                f"The listing did not show job {page.job_id} (its fields are {_names(page.listing_keys)}).",
                "Lost answers are looked up there: ask the service, and wait longer by --wait.",
            )
        ]
    found = []
    if page.listing_key in _READ_KEYS:
        found.append(
            _LISTING.ok(f"Jobs are listed under `{page.listing_key}`; both `jobs` and `items` are read.")
        )
    else:
        found.append(
            _LISTING.problem(f"Jobs are listed under `{page.listing_key}`, which is not read.", _NO_SETTING)
        )
    found.append(_judge_fields(page.line, _LINE_FIELDS, _LISTING, "A line"))
    room = settings.send_grace_seconds - settings.send_lease_seconds - settings.clock_skew_seconds
    if page.listed_after > room:
        grace = settings.send_grace_seconds + page.listed_after - room + 30
        found.append(
            _LISTING.mismatch(
                f"A new job was listed after {page.listed_after:.1f} s: a lost answer would be looked up too early.",
                {"SCRAPER_SEND_GRACE_SECONDS": f"{grace:.0f}"},
            )
        )
    else:
        found.append(_LISTING.ok(f"A new job is listed within {page.listed_after:.1f} s."))
    return [*found, _judge_echo(page.line.get("url"), page.sent_url, settings)]


def _judge_echo(echoed: JSON, sent: str, settings: Settings) -> Finding:
    if echoed == sent:
        hint = (
            ""
            if settings.mark_urls
            else " SCRAPER_MARK_URLS can be set, and tells a lost answer's job for certain."
        )
        return _LISTING.ok(f"URLs come back unchanged.{hint}")
    if settings.mark_urls:
        return _LISTING.mismatch(
            "URLs come back without their fragment: marks are lost.", {"SCRAPER_MARK_URLS": "false"}
        )
    if isinstance(echoed, str) and _plain(echoed) == _plain(sent):
        return _LISTING.ok("URLs come back without their fragment: SCRAPER_MARK_URLS has to stay unset.")
    return _LISTING.problem(
        "A URL comes back as another one: lost answers can not be looked up by it.",
        "Ask the service for the reason.",
    )


def _plain(url: str) -> str:
    return unmark_url(url).partition("#")[0].rstrip("/").lower()


def _judge_fields(
    fields: Mapping[str, JSON], expected: Iterable[str], subject: Subject, what: str
) -> Finding:
    missing = [name for name in expected if name not in fields]
    if not missing:
        return subject.ok(f"{what} has all the fields that are read.")
    said = f"{what} lacks {_names(missing)}; it has {_names(fields)}."
    return (
        subject.problem(said, _NO_SETTING)
        if _NEEDED.intersection(missing)
        else subject.warning(said, _NO_SETTING)
    )


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name[:40]}`" for name in sorted(names)[:30]) or "none"
