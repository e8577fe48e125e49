"""Postgres vacuums results as soon as a day's content was dropped, so that the next days' take its room.

By default it waits for a fifth of the table to be dead, which of years of rows is weeks of pages.
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute(
            "ALTER TABLE results"
            " SET (autovacuum_vacuum_scale_factor = 0.01, toast.autovacuum_vacuum_scale_factor = 0.02)"
        )
