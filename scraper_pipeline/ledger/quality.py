"""What the stored pages of a day are like, beside those of the days before: nothing of their content is handed out."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, LargeBinary, cast, distinct, func, select

from scraper_pipeline.ledger.base import StorePart
from scraper_pipeline.ledger.schema import current_results, partitions, results

SAMPLE = 200  # pages whose size is read: in the order of their hashes, which is as good as drawn by lot
_result, _current = results.c, current_results.c


@dataclass(frozen=True)
class ContentFigures:
    """``repeated`` counts the pages with the very content of another one of the day; ``mean_bytes`` is of a sample.

    Empty pages count in ``pages`` and ``empty`` alone.
    """

    pages: int
    empty: int
    repeated: int
    mean_bytes: float

    @property
    def empty_share(self) -> float:
        return self.empty / self.pages if self.pages else 0.0

    @property
    def repeated_share(self) -> float:
        return self.repeated / self.pages if self.pages else 0.0


class QualityStore(StorePart):
    """Reads only."""

    def content(self, partition_key: str) -> ContentFigures:
        """Figures of a partition's current pages; the sample is of all its pages, those of earlier attempts, too."""
        current = self.in_scope(current_results) & (_current.partition_key == partition_key)
        here = self.in_scope(results) & (_result.partition_key == partition_key)
        with self.reading() as connection:
            pages, full, different = connection.execute(
                select(
                    func.count(),
                    func.count().filter(~_current.is_empty),
                    func.count(distinct(_current.content_sha256)).filter(~_current.is_empty),
                ).where(current)
            ).one()
            sample = (
                select(self._bytes().label("bytes"))
                .where(here, ~_result.is_empty)
                .order_by(_result.content_sha256)
                .limit(SAMPLE)
                .subquery()
            )
            mean = connection.scalar(select(func.avg(sample.c.bytes)))
        return ContentFigures(pages, pages - full, full - different, float(mean or 0))

    def days_before(self, partition_key: str, limit: int) -> list[str]:
        """The planned days before this one, newest first."""
        day = partitions.c.partition_key
        with self.reading() as connection:
            return list(
                connection.scalars(
                    select(day)
                    .where(self.in_scope(partitions), day < partition_key)
                    .group_by(day)
                    .order_by(day.desc())
                    .limit(limit)
                )
            )

    def _bytes(self) -> ColumnElement[int]:
        """Of both forms of a page; Postgres knows it without reading the page."""
        forms = (_result.markdown, _result.html)
        if self.engine.dialect.name == "postgresql":
            sizes = [func.octet_length(form) for form in forms]
        else:
            sizes = [func.length(cast(form, LargeBinary)) for form in forms]
        return func.coalesce(sizes[0], 0) + func.coalesce(sizes[1], 0)
