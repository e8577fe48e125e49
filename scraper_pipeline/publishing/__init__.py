"""The pages of a day as files: published as Parquet, or exported by hand. Free of Dagster."""

from scraper_pipeline.publishing.columns import PAGE_COLUMNS, Column, ColumnType
from scraper_pipeline.publishing.days import Publication, file_of_day, publish_pages
from scraper_pipeline.publishing.errors import ContentPruned, PublishingError
from scraper_pipeline.publishing.exports import Export, ExportFormat, Selection, export_file, export_stream
from scraper_pipeline.publishing.places import Place, open_place
from scraper_pipeline.publishing.pruning import PruneReport, Retention, prune, what_is_old

__all__ = [
    "PAGE_COLUMNS",
    "Column",
    "ColumnType",
    "ContentPruned",
    "Export",
    "ExportFormat",
    "Place",
    "PruneReport",
    "Publication",
    "PublishingError",
    "Retention",
    "Selection",
    "export_file",
    "export_stream",
    "file_of_day",
    "open_place",
    "prune",
    "publish_pages",
    "what_is_old",
]
