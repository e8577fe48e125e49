"""What makes two lines the same target: the normalised URL and the options."""

import hashlib
import json
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import idna

from scraper_pipeline.ledger import Target
from scraper_pipeline.scraper_api import CrawlScope, ExtractOptions

_LONGEST_URL = 8192
_DEFAULT_PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class InvalidTarget(ValueError):
    """A URL that cannot be a target; the message says why, without showing it."""


def make_target(
    url: str,
    options: ExtractOptions | None = None,
    labels: Mapping[str, str] | None = None,
    crawl: CrawlScope | None = None,
) -> Target:
    """The target of a URL as written; its id is a hash of the normalised URL and the options.

    With ``crawl`` it asks for the pages that links lead to as well. Raises InvalidTarget and InvalidOptions.
    """
    options = options or ExtractOptions()
    if crawl is not None:
        options.check_fits_a_crawl()
    mapping = options.to_mapping() | (crawl.to_mapping() if crawl else {})
    parts = [normalise_url(url), mapping] + (["crawl"] if crawl else [])
    identity = json.dumps(parts, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    target_id = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return Target(target_id, url, mapping, dict(labels or {}), is_crawl=crawl is not None)


def normalise_url(url: str) -> str:
    """A URL in the form that counts for its identity, where every spelling of scheme, host and port is the same.

    Path, query and fragment stay as they are, for sites may tell their spellings apart. Raises InvalidTarget.
    """
    if len(url.encode("utf-8", "surrogatepass")) > _LONGEST_URL:
        raise InvalidTarget(f"the URL is longer than {_LONGEST_URL} bytes")
    if _CONTROL.search(url):
        raise InvalidTarget("the URL holds a control character or half of a surrogate pair")
    if re.search(r"\s", url):
        raise InvalidTarget("the URL holds a blank; write it as %20")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidTarget("the URL's host or port cannot be read") from None
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise InvalidTarget("this is no http or https URL with a host")
    userinfo, at, _ = parts.netloc.rpartition("@")
    host = f"[{host}]" if ":" in host else _ascii_host(host)
    suffix = "" if port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{port}"
    rest = url[len(parts.scheme) + len("://") + len(parts.netloc) :]
    return f"{parts.scheme}://{userinfo}{at}{host}{suffix}{'' if rest.startswith('/') else '/'}{rest}"


def _ascii_host(host: str) -> str:
    # As browsers do it (UTS 46): unlike Python's own codec, it keeps ß apart from ss, and takes emoji.
    if host.isascii():
        return host
    try:
        labels = idna.uts46_remap(host, std3_rules=False, transitional=False).split(".")
        return ".".join(
            label if label.isascii() else f"xn--{label.encode('punycode').decode()}" for label in labels
        )
    except (idna.IDNAError, UnicodeError):
        raise InvalidTarget("the URL's host is no valid name") from None
