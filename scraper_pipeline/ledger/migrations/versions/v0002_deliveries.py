"""The webhooks' delivery log and rotations, replays, and when jobs were completed and days planned whole."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

UTC_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("jobs", sa.Column("completed_at", UTC_TIME, nullable=True))
    op.add_column("processed_events", sa.Column("replays", sa.Integer(), server_default="0", nullable=False))
    op.add_column("processed_events", sa.Column("replayed_at", UTC_TIME, nullable=True))
    op.create_table(
        "deliveries",
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("delivery_id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), server_default="default", nullable=False),
        sa.Column("feed", sa.Text(), server_default="default", nullable=False),
        sa.Column("event_type", sa.Text(), nullable=True),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("attempt_number", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("created_at", UTC_TIME, nullable=False),
        sa.Column("delivered_at", UTC_TIME, nullable=True),
        sa.Column("seen_at", UTC_TIME, nullable=False),
        sa.PrimaryKeyConstraint("webhook_id", "delivery_id", name="pk_deliveries"),
    )
    op.create_index("ix_deliveries_created", "deliveries", ["account", "feed", "created_at"], unique=False)
    op.create_index("ix_deliveries_job", "deliveries", ["job_id"], unique=False)
    op.add_column("partitions", sa.Column("planned_at", UTC_TIME, nullable=True))
    op.add_column("webhooks", sa.Column("rotation_begun_at", UTC_TIME, nullable=True))
    op.add_column("webhooks", sa.Column("log_read_until", UTC_TIME, nullable=True))
