"""Ledgers as earlier releases left them."""

from alembic import command
from sqlalchemy import create_engine

from scraper_pipeline.ledger import database


def migrate_to(url: str, revision: str) -> None:
    """Bring a database to a revision of the schema, which need not be the newest."""
    config = database._config()
    engine = create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()
