"""What is known of each list of targets and day: whether its planning came to its end, its length, its cost."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "planned_lists",
        sa.Column("account", sa.Text(), server_default="default", nullable=False),
        sa.Column("feed", sa.Text(), server_default="default", nullable=False),
        sa.Column("list", sa.Text(), nullable=False),
        sa.Column("partition_key", sa.Text(), nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("targets", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("pages", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("beyond_budget", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("account", "feed", "list", "partition_key", name="pk_planned_lists"),
    )
    op.create_index("ix_planned_lists_partition", "planned_lists", ["account", "feed", "partition_key"])
