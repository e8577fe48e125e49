"""A Dagster pipeline that brings every page of an asynchronous scraper API home exactly once."""
