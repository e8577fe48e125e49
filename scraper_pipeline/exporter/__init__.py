"""Metrics of the pipeline for Prometheus. Free of Dagster."""

from scraper_pipeline.exporter.collector import LedgerCollector, Limits
from scraper_pipeline.exporter.server import serving

__all__ = ["LedgerCollector", "Limits", "serving"]
