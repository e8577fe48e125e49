"""URLs as services give them back: in another spelling of the same address."""

from urllib.parse import urlsplit, urlunsplit

from scraper_pipeline.ledger import unmark_url


def spelling(url: str) -> str:
    """The URL in the spelling that services normalise to: host in lower case, a path, no fragment and no marker."""
    url = unmark_url(url)
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return urlunsplit(
        parts._replace(
            scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), path=parts.path or "/", fragment=""
        )
    )
