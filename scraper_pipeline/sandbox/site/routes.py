"""Where the site's pages are, and the behaviour of those that fail in a known way."""

import asyncio
from collections import Counter

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from scraper_pipeline.sandbox.fetching import OUTCOME_HEADER
from scraper_pipeline.sandbox.site import pages

_PATIENCE = 120.0
"""Seconds that a slow page takes: longer than whoever fetches it waits."""


class Site:
    """The site's routes; what it remembers is how often each flaky page was asked for."""

    def __init__(self, *, flaky_failures: int) -> None:
        self._flaky_failures = flaky_failures
        self._visits: Counter[int] = Counter()

    def routes(self) -> list[Route]:
        return [
            Route("/", self._index),
            Route("/pages/{number:int}", self._page),
            Route("/large", self._large),
            Route("/empty", self._empty),
            Route("/code", self._code),
            Route("/table", self._table),
            Route("/broken/{number:int}", self._broken),
            Route("/flaky/{number:int}", self._flaky),
            Route("/slow/{number:int}", self._slow),
            Route("/cancelled/{number:int}", self._cancelled),
            Route("/images/{name}", self._image),
        ]

    async def _index(self, request: Request) -> Response:
        return HTMLResponse(pages.index_page())

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(pages.page(request.path_params["number"]))

    async def _large(self, request: Request) -> Response:
        return HTMLResponse(pages.large_page())

    async def _empty(self, request: Request) -> Response:
        return HTMLResponse("")

    async def _code(self, request: Request) -> Response:
        return HTMLResponse(pages.code_page())

    async def _table(self, request: Request) -> Response:
        return HTMLResponse(pages.table_page())

    async def _broken(self, request: Request) -> Response:
        return HTMLResponse("<h1>403</h1><p>Robots are not served here.</p>", 403)

    async def _flaky(self, request: Request) -> Response:
        """Refuses the first visits, then serves the page like any other."""
        number = request.path_params["number"]
        self._visits[number] += 1
        if self._visits[number] <= self._flaky_failures:
            return HTMLResponse("<h1>503</h1><p>Come back in a while.</p>", 503)
        return HTMLResponse(pages.page(number))

    async def _slow(self, request: Request) -> Response:
        """Keeps its visitor waiting until that one gives up."""
        for _ in range(int(_PATIENCE / 0.25)):
            if await request.is_disconnected():
                break
            await asyncio.sleep(0.25)
        return HTMLResponse(pages.page(request.path_params["number"]))

    async def _cancelled(self, request: Request) -> Response:
        return HTMLResponse("<h1>Cancelled</h1>", headers={OUTCOME_HEADER: "cancelled"})

    async def _image(self, request: Request) -> Response:
        """A drawing for every picture on the site, so that its pages look whole in a browser."""
        return Response(pages.image(request.path_params["name"]), media_type="image/svg+xml")
