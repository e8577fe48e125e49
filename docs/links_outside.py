"""A hook of mkdocs: links to files of the checkout that are no pages become the names of these files."""

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The checkout has these files; the site, which may be read far from it, can only name them."""
    return _OUTSIDE.sub(_named, markdown)


def _named(link: re.Match[str]) -> str:
    text, path = link[1], link[2].removeprefix("../").partition("#")[0]
    return f"`{path}`" if text.strip("`") == path else f"{text} (`{path}` in the checkout)"
