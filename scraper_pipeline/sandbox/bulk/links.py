"""The links of a page, and which of them a crawl may follow."""

import re
from html import unescape
from urllib.parse import urldefrag, urljoin, urlsplit

from scraper_pipeline.sandbox.requests import CrawlRequest, is_web_address

_LINK = re.compile(r"""<a\s[^>]*?href\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)


def links_of(html: str, url: str) -> tuple[str, ...]:
    """The web addresses that a page links to, each once, without their fragments, in the page's order."""
    found: dict[str, None] = {}
    for match in _LINK.finditer(html):
        try:
            link = urldefrag(urljoin(url, unescape(match[1].strip("\"'")).strip())).url
        except ValueError:
            continue
        if is_web_address(link):
            found[link] = None
    return tuple(found)


def is_within(link: str, request: CrawlRequest) -> bool:
    """Whether the crawl's options admit a link, by its host."""
    if not request.same_domain_only:
        return True
    host, seed = urlsplit(link).hostname or "", urlsplit(request.url).hostname or ""
    return host == seed or (request.include_subdomains and host.endswith(f".{seed}"))
