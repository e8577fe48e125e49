"""What each sweep saw, the jobs of other programs, and an index of the jobs that are waited for."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

UTC_TIME = sa.DateTime(timezone=True)
JSON_DOCUMENT = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "sweeps",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("account", sa.Text(), server_default="default", nullable=False),
        sa.Column("feed", sa.Text(), server_default="default", nullable=False),
        sa.Column("began_at", UTC_TIME, nullable=False),
        sa.Column("ended_at", UTC_TIME, nullable=True),
        sa.Column("seen_until", UTC_TIME, nullable=True),
        sa.Column("figures", JSON_DOCUMENT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_sweeps_began", "sweeps", ["account", "feed", "began_at"], unique=False)
    op.create_table(
        "foreign_jobs",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), server_default="default", nullable=False),
        sa.Column("feed", sa.Text(), server_default="default", nullable=False),
        sa.Column("kind", sa.Text(), server_default="extract", nullable=False),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", UTC_TIME, nullable=True),
        sa.Column("first_seen_at", UTC_TIME, nullable=False),
        sa.Column("last_seen_at", UTC_TIME, nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index(
        "ix_foreign_jobs_seen", "foreign_jobs", ["account", "feed", "first_seen_at"], unique=False
    )
    op.create_index(
        "ix_submissions_accepted",
        "submissions",
        ["account", "sent_at"],
        unique=False,
        sqlite_where=sa.text("state = 'accepted'"),
        postgresql_where=sa.text("state = 'accepted'"),
    )
    op.create_index(
        "ix_submissions_given_up",
        "submissions",
        ["account", "sent_at"],
        unique=False,
        sqlite_where=sa.text("given_up IS 1"),
        postgresql_where=sa.text("given_up IS true"),
    )
