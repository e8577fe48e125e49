"""The IO manager that makes storing a page and marking its job as done one and the same commit."""

from scraper_pipeline.io_managers.idempotency import IdempotencyIOManager

__all__ = ["IdempotencyIOManager"]
