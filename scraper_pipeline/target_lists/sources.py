"""Where a list lives: a file, a sitemap's URL, or a query on a database."""

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Protocol

from scraper_pipeline.target_lists.dates import resolve_date
from scraper_pipeline.target_lists.downloads import shown_url
from scraper_pipeline.target_lists.entries import Rows
from scraper_pipeline.target_lists.lines import line_rows
from scraper_pipeline.target_lists.parquet import parquet_rows
from scraper_pipeline.target_lists.sitemaps import sitemap_rows

_URL = re.compile(r"https?://", re.IGNORECASE)


class Source(Protocol):
    """Something with rows for each day; ``queries.Query`` is one, too."""

    def rows(self, day: date) -> Rows:
        """The rows of that day's list, in its order. Raises TargetListError while it is iterated."""
        ...

    def shown(self, day: date) -> str:
        """Where that day's list is, for people."""
        ...


@dataclass(frozen=True)
class Location:
    """A path, below ``folder`` if it is relative, or the URL of a sitemap; either may hold the date."""

    template: str
    folder: Path = Path()

    def rows(self, day: date) -> Rows:
        location = self._at(day)
        if isinstance(location, str):
            return sitemap_rows(location)
        name = location.name.lower()
        if name.endswith((".xml", ".xml.gz")):
            return sitemap_rows(location)
        return parquet_rows(location) if name.endswith((".parquet", ".pq")) else line_rows(location)

    def shown(self, day: date) -> str:
        location = self._at(day)
        return shown_url(location) if isinstance(location, str) else str(location)

    def _at(self, day: date) -> str | Path:
        resolved = resolve_date(self.template, day)
        return resolved if _URL.match(resolved) else self.folder / Path(resolved).expanduser()
