"""Which jobs may be those of a submission whose answer was lost: for each kind, told by the URLs that were sent."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scraper_pipeline.ledger import Kind, OverdueSubmission, is_marked_url, mark_url
from scraper_pipeline.lifecycle.spelling import spelling
from scraper_pipeline.scraper_api import (
    BatchSummary,
    CrawlSummary,
    JobExpired,
    JobNotFound,
    JobSummary,
    ScraperClient,
)

_BATCHES_LOOKED_AT = 3


@dataclass(frozen=True)
class Candidate:
    """A job that may be the request's; ``urls`` counts how many of the request's it holds."""

    job_id: str
    status: str
    is_terminal: bool
    urls: int = 1


@dataclass(frozen=True)
class Search:
    """What the search for a request's job may do: ask the service, within ``seconds_left`` of time.

    ``bound`` are jobs of the same time whose answers came: they show whether the service gives markers back.
    """

    client: ScraperClient
    mark_urls: bool
    seconds_left: Callable[[], float]
    bound: Sequence[Any] = ()


async def _find_single(
    search: Search, request: OverdueSubmission, jobs: Sequence[JobSummary]
) -> list[Candidate] | None:
    """Jobs for the request's URL, in the very spelling or else in one that means the same.

    The marker is looked for only where the service is seen to echo it: one that drops fragments lists bare URLs.
    """
    is_marked = search.mark_urls and any(is_marked_url(job.url) for job in (*jobs, *search.bound))
    url = mark_url(request.url, request.request_id) if is_marked else request.url
    found = [job for job in jobs if job.url == url]
    if not found and not is_marked:
        found = [job for job in jobs if spelling(job.url) == spelling(url)]
    return [Candidate(job.job_id, job.status, job.is_terminal) for job in found]


async def _find_batch(
    search: Search, request: OverdueSubmission, jobs: Sequence[BatchSummary]
) -> list[Candidate] | None:
    """Batches that hold nothing but URLs of the request; None while one that may be is not readable yet.

    With markers, one that has bare URLs is no batch of ours where the service is seen to give markers back.
    """
    found: list[tuple[Candidate, _Held]] = []
    for job in jobs:
        if job.accepted_urls is not None and job.accepted_urls > len(request.urls):
            continue
        if not job.is_terminal:
            return None
        held = await _urls_held(search, job.job_id, request)
        if held is None:
            return None
        if held.urls:
            found.append((Candidate(job.job_id, job.status, job.is_terminal, held.urls), held))
    if search.mark_urls and any(held.is_bare for _, held in found):
        are_shown = any(held.is_marked for _, held in found) or await _shows_markers(search)
        found = [(job, held) for job, held in found if not (are_shown and held.is_bare)]
    return [job for job, _ in found]


async def _shows_markers(search: Search) -> bool:
    """Whether one of the newest batches that were marked for certain shows it."""
    for job in search.bound[:_BATCHES_LOOKED_AT]:
        try:
            parts = await search.client.read_batch_page(job.job_id, 1, budget=search.seconds_left())
        except (JobExpired, JobNotFound):
            continue
        if any(is_marked_url(item.url) for part in parts for item in part.items):
            return True
    return False


@dataclass(frozen=True)
class _Held:
    """How many URLs a batch holds if all are the request's, 0 if others are there; and if any are marked, or bare."""

    urls: int = 0
    is_marked: bool = False
    is_bare: bool = False


async def _urls_held(search: Search, job_id: str, request: OverdueSubmission) -> _Held | None:
    """What a batch holds; None if that can't be told. One that shows nothing of what it counts has told nothing."""
    sent, is_readable = {spelling(url) for url in request.urls}, True
    urls: list[str] = []
    marker, counted = mark_url("", request.request_id), None
    try:
        async for part in search.client.read_batch(job_id, budget=search.seconds_left()):
            if any(spelling(item.url) not in sent for item in part.items):
                return _Held()
            if any(is_marked_url(item.url) and not item.url.endswith(marker) for item in part.items):
                return _Held()  # a batch of ours, of another request
            urls += (item.url for item in part.items)
            is_readable = is_readable and not (part.unreadable or part.too_large)
            counted = part.total
    except (JobExpired, JobNotFound):
        return None
    if not urls and (counted or not is_readable):
        return None
    return _Held(len(urls), any(map(is_marked_url, urls)), any("#" not in url for url in urls))


async def _find_crawl(
    search: Search, request: OverdueSubmission, jobs: Sequence[CrawlSummary]
) -> list[Candidate] | None:
    """Crawls that began at the request's URL; None while that of one is not to be had."""
    found: list[Candidate] = []
    began_at: dict[str, str] = {}
    for job in jobs:
        url = job.url
        if url is None:
            try:
                url = (await search.client.look_at_crawl(job.job_id, budget=search.seconds_left())).url
            except (JobExpired, JobNotFound):
                return None
        if url is None:
            return None
        began_at[job.job_id] = url
        if spelling(url) == spelling(request.url):
            found.append(Candidate(job.job_id, job.status, job.is_terminal))
    marked = mark_url(request.url, request.request_id)
    shown = [*began_at.values(), *(job.url for job in search.bound if job.url)]
    if search.mark_urls and any(is_marked_url(url) for url in shown):
        return [candidate for candidate in found if began_at[candidate.job_id] == marked]
    return found


FINDERS: Mapping[Kind, Callable[..., Awaitable[list[Candidate] | None]]] = {
    Kind.EXTRACT: _find_single,
    Kind.BATCH: _find_batch,
    Kind.CRAWL: _find_crawl,
}
