"""Where the site's pages are, and the behaviour of those that fail in a known way."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from scraper_pipeline.sandbox.fetching import OUTCOME_HEADER
from scraper_pipeline.sandbox.site import pages

MOUNTED_AT = "/site"
_PATIENCE = 120.0
"""Seconds that a slow page takes: longer than whoever fetches it waits."""

_NUMBERED = re.compile(r"/(pages|broken|flaky|slow|cancelled)/([0-9]{1,18})")
_NAMED: dict[str, Callable[[], str]] = {
    "/": pages.index_page,
    "/large": pages.large_page,
    "/empty": str,
    "/code": pages.code_page,
    "/table": pages.table_page,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the site answers to a visit; `html` is made when it is asked for, the same each time."""

    html: Callable[[], str]
    status: int = 200
    is_cancelled: bool = False
    is_slow: bool = False
    """It comes later than anyone waits."""


class Site:
    """The site's routes; what it remembers is how often each flaky page was asked for."""

    def __init__(self, *, flaky_failures: int) -> None:
        self._flaky_failures = flaky_failures
        self._visits: Counter[int] = Counter()

    def routes(self) -> list[Route]:
        return [
            *(Route(path, self._page) for path in _NAMED),
            *(
                Route(f"/{kind}/{{number:int}}", self._page)
                for kind in ("pages", "broken", "flaky", "slow", "cancelled")
            ),
            Route("/images/{name}", self._image),
        ]

    def visit(self, path: str) -> Answer | None:
        """The answer to a visit by HTTP, without any; None for what is no page of the site.

        `path` begins with where the site is mounted. A visit to a flaky page counts.
        """
        if not path.startswith(f"{MOUNTED_AT}/"):
            return None
        place = path.removeprefix(MOUNTED_AT)
        if place in _NAMED:
            return Answer(_NAMED[place])
        numbered = _NUMBERED.fullmatch(place)
        return None if numbered is None else self._visit_numbered(numbered[1], int(numbered[2]))

    def _visit_numbered(self, kind: str, number: int) -> Answer:
        page = partial(pages.page, number)
        if kind == "broken":
            return Answer(lambda: "<h1>403</h1><p>Robots are not served here.</p>", 403)
        if kind == "cancelled":
            return Answer(lambda: "<h1>Cancelled</h1>", is_cancelled=True)
        if kind == "flaky":
            self._visits[number] += 1
            if self._visits[number] <= self._flaky_failures:
                return Answer(lambda: "<h1>503</h1><p>Come back in a while.</p>", 503)
        return Answer(page, is_slow=kind == "slow")

    async def _page(self, request: Request) -> Response:
        answer = self.visit(request.url.path)
        if answer is None:
            return Response(status_code=404)
        if answer.is_slow:
            await _outlast(request)
        headers = {OUTCOME_HEADER: "cancelled"} if answer.is_cancelled else None
        return HTMLResponse(answer.html(), answer.status, headers=headers)

    async def _image(self, request: Request) -> Response:
        """A drawing for every picture on the site, so that its pages look whole in a browser."""
        return Response(pages.image(request.path_params["name"]), media_type="image/svg+xml")


async def _outlast(request: Request) -> None:
    """Keeps a visitor waiting until that one gives up."""
    for _ in range(int(_PATIENCE / 0.25)):
        if await request.is_disconnected():
            break
        await asyncio.sleep(0.25)
