"""Alembic's entry: runs the migrations on the connection that ``ledger.database.migrate`` hands over."""

from alembic import context

from scraper_pipeline.ledger.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
