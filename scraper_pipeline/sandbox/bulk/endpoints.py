"""The calls under /v1/batch and /v1/crawl, as the contract has them."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from scraper_pipeline.sandbox import answers
from scraper_pipeline.sandbox.bulk import bodies
from scraper_pipeline.sandbox.bulk.book import BulkBook, BulkJob, Item, Kind
from scraper_pipeline.sandbox.bulk.work import BulkWork
from scraper_pipeline.sandbox.context import Endpoint, Sandbox
from scraper_pipeline.sandbox.requests import BatchRequest, BulkListingQuery, CrawlRequest, ResultsQuery
from scraper_pipeline.sandbox.rules import Call
from scraper_pipeline.sandbox.spoiling import Spoiling

Q = TypeVar("Q", bound=BaseModel)


class BulkEndpoints:
    """The endpoints of one kind. Where the sandbox is not to offer it, each answers `unoffered_status`."""

    def __init__(
        self, sandbox: Sandbox, kind: Kind, *, book: BulkBook, work: BulkWork, spoiling: Spoiling
    ) -> None:
        self._sandbox = sandbox
        self._kind = kind
        self._book = book
        self._work = work
        self._spoiling = spoiling

    def routes(self) -> list[Route]:
        collection = f"/v1/{self._kind}"
        return [
            self._route("POST", collection, "post", self.create),
            self._route("GET", f"{collection}/jobs", "list", self.list_jobs),
            self._route("GET", f"{collection}/{{job_id}}", "get", self.get),
            self._route("DELETE", f"{collection}/{{job_id}}", "cancel", self.cancel),
        ]

    def _route(self, method: str, path: str, call: Call, endpoint: Endpoint) -> Route:
        async def answer(request: Request) -> Response:
            config = self._sandbox.config
            is_offered = config.batches_offered if self._kind == "batch" else config.crawls_offered
            if is_offered:
                return await endpoint(request)
            return self._sandbox.error(config.unoffered_status, "NOT_FOUND", "There is no such call")

        return Route(path, self._sandbox.counted(f"{method} {path}", call, answer), methods=[method])

    async def create(self, request: Request) -> Response:
        kind: type[BatchRequest | CrawlRequest] = BatchRequest if self._kind == "batch" else CrawlRequest
        try:
            wanted = kind.model_validate(await request.json())
        except ValidationError as error:
            return answers.validation_response(error, "body")
        except ValueError:
            return self._sandbox.error(400, "BAD_REQUEST", "The body is no JSON")
        pages = len(wanted.valid_urls) if isinstance(wanted, BatchRequest) else 1
        if refused := self._spoiling.refuse_submission(wanted.aim, pages):
            return refused
        job = self._work.accept(wanted, str(request.base_url))
        await self._sandbox.deliveries.announce_early(job)
        body = bodies.accepted_body(job, str(request.base_url), url=self._url(job))
        return await self._spoiling.accepted(job.aim, body)

    async def get(self, request: Request) -> Response:
        query = _read_query(request, ResultsQuery)
        if isinstance(query, Response):
            return query
        job = self._book.get(request.path_params["job_id"])
        if job is None:
            return self._sandbox.error(404, "NOT_FOUND", "There is no such job")
        if refused := self._spoiling.refuse_look(job):
            return refused
        return self._spoiling.refuse_results(job.aim, query.page) or await self._show(job, query)

    async def _show(self, job: BulkJob, query: ResultsQuery) -> Response:
        sandbox, is_strange = self._sandbox, False
        now = sandbox.clock.monotonic()
        # The whole is told before its pages: nothing in it may look as if it ended earlier than they do.
        whole = bodies.status_body(job, time=now, url=self._url(job))
        for item in self._page(job, query):
            body = await bodies.item_body(job, item, time=now, url=sandbox.echo(item.url))
            if body["data"] is not None:
                is_strange |= self._spoiling.spoil_content(body, item.url)
            whole["results"].append(body)
        self._spoiling.make_times_odd(whole, job, "get")
        return await self._spoiling.answered(whole, job.aim, is_strange=is_strange)

    def _page(self, job: BulkJob, query: ResultsQuery) -> list[Item]:
        sandbox = self._sandbox
        if sandbox.fault_book.strike(
            "results_empty_page", sandbox.faults.results_empty_page, job.aim, page=query.page
        ):
            return []
        ended_only = sandbox.config.results_shown == "ended"
        first = (query.page - 1) * query.page_size
        if first >= len(job.items):
            return []
        shown = [
            item for item in job.items if not item.is_hidden and (item.outcome is not None or not ended_only)
        ]
        if sandbox.faults.results_reversed:
            shown.reverse()
        return shown[first : first + query.page_size]

    async def cancel(self, request: Request) -> Response:
        sandbox = self._sandbox
        job = self._book.get(request.path_params["job_id"])
        if job is None:
            return sandbox.error(404, "NOT_FOUND", "There is no such job")
        if job.outcome is not None or job.is_cancelled:
            return sandbox.error(409, "CONFLICT", "The job can't be cancelled any more")
        in_flight = self._work.cancel(job)
        return answers.json_response(bodies.cancelled_body(job, str(request.base_url), in_flight), 202)

    async def list_jobs(self, request: Request) -> Response:
        query = _read_query(request, BulkListingQuery)
        if isinstance(query, Response):
            return query
        if refused := self._spoiling.refuse_listing(""):
            return refused
        sandbox = self._sandbox
        faults, now = sandbox.faults, sandbox.clock.monotonic()
        found = self._book.listing(query, time=now, capped_above=faults.listing_capped_above)
        is_empty = sandbox.fault_book.strike("listing_empty_page", faults.listing_empty_page)
        summaries = []
        for job in () if is_empty else found.jobs:
            summary = bodies.summary_body(job, time=now, url=self._url(job))
            self._spoiling.make_times_odd(summary, job, "list")
            summaries.append(summary)
        body = answers.listing_body(found, summaries, sandbox.config.listing_key)
        if not found.is_capped:
            del body["is_capped"]  # which the reference does not know here
        return answers.json_response(body)

    def _url(self, job: BulkJob) -> str:
        return self._sandbox.echo(job.request.url) if isinstance(job.request, CrawlRequest) else ""


def _read_query(request: Request, kind: type[Q]) -> Q | Response:
    try:
        return kind.model_validate(dict(request.query_params))
    except ValidationError as error:
        return answers.validation_response(error, "query")
