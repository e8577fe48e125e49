"""From a page's HTML to its Markdown."""

from functools import lru_cache

from html_to_markdown import ConversionOptions, convert

_OPTIONS = ConversionOptions(extract_metadata=False, compact_tables=True)


@lru_cache(maxsize=32)
def _convert_large(html: str) -> str:
    return convert(html, _OPTIONS).content or ""


def to_markdown(html: str) -> str:
    """The main content of a page; navigation, scripts and styles are left out. An empty page gives an empty text.

    Converting holds the interpreter for a fifth of a second a megabyte, so large pages are kept.
    """
    if len(html) > 100_000:
        return _convert_large(html)
    return convert(html, _OPTIONS).content or ""
