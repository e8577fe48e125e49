"""Dead letters may be discarded by a person, with a note; each target has at most one that stands.

And an index by which costs are counted without reading the pages.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_STANDS = sa.text("resolved_at IS NULL OR resolution = 'discarded'")


def upgrade() -> None:
    op.add_column("dead_letters", sa.Column("note", sa.Text(), nullable=True))
    op.drop_index("uq_dead_letters_open", "dead_letters")
    op.create_index(
        "uq_dead_letters_standing",
        "dead_letters",
        ["account", "feed", "partition_key", "target_id"],
        unique=True,
        sqlite_where=_STANDS,
        postgresql_where=_STANDS,
    )
    op.create_index(
        "ix_results_unusual",
        "results",
        ["job_id", "item_key", "is_empty", "tokens_charged"],
        unique=False,
        sqlite_where=sa.text("is_empty IS 1 OR tokens_charged != 1"),
        postgresql_where=sa.text("is_empty IS true OR tokens_charged != 1"),
    )
