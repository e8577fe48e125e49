"""The first schema: submissions, jobs, news, results, dead letters, and what belongs to them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

UTC_TIME = sa.DateTime(timezone=True)
JSON_DOCUMENT = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")

CURRENT_RESULTS_VIEW = """
CREATE VIEW current_results AS
SELECT job_id, item_key, account, feed, partition_key, target_id, attempt, url, labels, http_status, markdown, html,
       metadata, tokens_charged, content_sha256, is_empty, completed_at, stored_at
FROM (
    SELECT r.*, row_number() OVER (
        PARTITION BY account, feed, partition_key, target_id ORDER BY attempt DESC, stored_at DESC, job_id DESC
    ) AS age_rank
    FROM results AS r
) AS ranked
WHERE age_rank = 1
"""


def upgrade() -> None:
    op.create_table(
        "dead_letters",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("item_key", sa.Text(), nullable=True),
        sa.Column("account", sa.Text(), server_default="default", nullable=False),
        sa.Column("feed", sa.Text(), server_default="default", nullable=False),
        sa.Column("partition_key", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("error_code", sa.Text(), nullable=False),
        sa.Column("error_message", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("parked_at", UTC_TIME, nullable=False),
        sa.Column("resolved_at", UTC_TIME, nullable=True),
        sa.Column("resolution", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_dead_letters_partition", "dead_letters", ["account", "feed", "partition_key"], unique=False
    )
    op.create_index(
        "uq_dead_letters_open",
        "dead_letters",
        ["account", "feed", "partition_key", "target_id"],
        unique=True,
        sqlite_where=sa.text("resolved_at IS NULL"),
        postgresql_where=sa.text("resolved_at IS NULL"),
    )
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), server_default="default", nullable=False),
        sa.Column("feed", sa.Text(), server_default="default", nullable=False),
        sa.Column("partition_key", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("sent_at", UTC_TIME, nullable=False),
        sa.Column("accepted_at", UTC_TIME, nullable=False),
        sa.Column("next_look_at", UTC_TIME, nullable=True),
        sa.Column("looks", sa.Integer(), server_default="0", nullable=False),
        sa.Column("missing_since", UTC_TIME, nullable=True),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index("ix_jobs_accepted", "jobs", ["account", "accepted_at"], unique=False)
    op.create_index(
        "ix_jobs_due",
        "jobs",
        ["account", "next_look_at"],
        unique=False,
        sqlite_where=sa.text("next_look_at IS NOT NULL"),
        postgresql_where=sa.text("next_look_at IS NOT NULL"),
    )
    op.create_table(
        "partitions",
        sa.Column("account", sa.Text(), server_default="default", nullable=False),
        sa.Column("feed", sa.Text(), server_default="default", nullable=False),
        sa.Column("partition_key", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", UTC_TIME, nullable=False),
        sa.PrimaryKeyConstraint("account", "feed", "partition_key", name="pk_partitions"),
    )
    op.create_table(
        "processed_events",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), server_default="default", nullable=False),
        sa.Column("feed", sa.Text(), server_default="default", nullable=False),
        sa.Column("event_type", sa.Text(), nullable=True),
        sa.Column("delivery_id", sa.Text(), nullable=True),
        sa.Column("webhook_at", UTC_TIME, nullable=True),
        sa.Column("poll_at", UTC_TIME, nullable=True),
        sa.Column("delivery_log_at", UTC_TIME, nullable=True),
        sa.Column("sweep_at", UTC_TIME, nullable=True),
        sa.Column("received_at", UTC_TIME, nullable=False),
        sa.Column("available_at", UTC_TIME, nullable=False),
        sa.Column("claimed_by", sa.Text(), nullable=True),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("given_up_at", UTC_TIME, nullable=True),
        sa.Column("processed_at", UTC_TIME, nullable=True),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index(
        "ix_events_pending",
        "processed_events",
        ["account", "available_at"],
        unique=False,
        sqlite_where=sa.text("processed_at IS NULL AND given_up_at IS NULL"),
        postgresql_where=sa.text("processed_at IS NULL AND given_up_at IS NULL"),
    )
    op.create_table(
        "quarantine",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("account", sa.Text(), server_default="default", nullable=False),
        sa.Column("feed", sa.Text(), server_default="default", nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("received_at", UTC_TIME, nullable=False),
        sa.Column("resolved_at", UTC_TIME, nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "results",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("item_key", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), server_default="default", nullable=False),
        sa.Column("feed", sa.Text(), server_default="default", nullable=False),
        sa.Column("partition_key", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("labels", JSON_DOCUMENT, nullable=False),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("markdown", sa.Text(), nullable=True),
        sa.Column("html", sa.Text(), nullable=True),
        sa.Column("metadata", JSON_DOCUMENT, nullable=False),
        sa.Column("tokens_charged", sa.BigInteger(), nullable=True),
        sa.Column("content_sha256", sa.Text(), nullable=False),
        sa.Column("is_empty", sa.Boolean(), nullable=False),
        sa.Column("completed_at", UTC_TIME, nullable=True),
        sa.Column("stored_at", UTC_TIME, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "item_key", name="pk_results"),
    )
    op.create_index(
        "ix_results_target", "results", ["account", "feed", "partition_key", "target_id"], unique=False
    )
    op.create_table(
        "run_leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), server_default="default", nullable=False),
        sa.Column("feed", sa.Text(), server_default="default", nullable=False),
        sa.Column("partition_key", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("expires_at", UTC_TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", "account", "feed", "partition_key", name="pk_run_leases"),
    )
    op.create_table(
        "submissions",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("account", sa.Text(), server_default="default", nullable=False),
        sa.Column("feed", sa.Text(), server_default="default", nullable=False),
        sa.Column("partition_key", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("first_attempt", sa.Integer(), server_default="1", nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("url_hash", sa.Text(), nullable=False),
        sa.Column("options", JSON_DOCUMENT, nullable=False),
        sa.Column("labels", JSON_DOCUMENT, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("planned_at", UTC_TIME, nullable=False),
        sa.Column("not_before", UTC_TIME, nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("sent_at", UTC_TIME, nullable=True),
        sa.Column("lease_until", UTC_TIME, nullable=True),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("item_key", sa.Text(), nullable=True),
        sa.Column("accepted_at", UTC_TIME, nullable=True),
        sa.Column("settled_at", UTC_TIME, nullable=True),
        sa.Column("given_up", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.CheckConstraint(
            "state <> 'accepted' OR job_id IS NOT NULL", name="ck_submissions_accepted_has_job"
        ),
        sa.CheckConstraint(
            "state <> 'sending' OR request_id IS NOT NULL", name="ck_submissions_sending_has_request"
        ),
        sa.CheckConstraint(
            "state IN ('planned', 'sending', 'accepted', 'stored', 'dead', 'superseded')",
            name="ck_submissions_state",
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "ix_submissions_partition_state",
        "submissions",
        ["account", "feed", "partition_key", "state"],
        unique=False,
    )
    op.create_index(
        "ix_submissions_planned",
        "submissions",
        ["account", "feed", "partition_key", "id"],
        unique=False,
        sqlite_where=sa.text("state = 'planned'"),
        postgresql_where=sa.text("state = 'planned'"),
    )
    op.create_index("ix_submissions_request", "submissions", ["request_id"], unique=False)
    op.create_index(
        "ix_submissions_sending",
        "submissions",
        ["lease_until"],
        unique=False,
        sqlite_where=sa.text("state = 'sending'"),
        postgresql_where=sa.text("state = 'sending'"),
    )
    op.create_index("ix_submissions_sent", "submissions", ["account", "sent_at"], unique=False)
    op.create_index(
        "ix_submissions_waiting_url",
        "submissions",
        ["account", "url_hash"],
        unique=False,
        sqlite_where=sa.text("state IN ('planned', 'sending')"),
        postgresql_where=sa.text("state IN ('planned', 'sending')"),
    )
    op.create_index(
        "uq_submissions_attempt",
        "submissions",
        ["account", "feed", "partition_key", "target_id", "attempt"],
        unique=True,
    )
    op.create_index("uq_submissions_job_item", "submissions", ["job_id", "item_key"], unique=True)
    op.create_index(
        "uq_submissions_live",
        "submissions",
        ["account", "feed", "partition_key", "target_id"],
        unique=True,
        sqlite_where=sa.text("state != 'superseded'"),
        postgresql_where=sa.text("state != 'superseded'"),
    )
    op.create_index(
        "uq_submissions_sending_url",
        "submissions",
        ["account", "url_hash"],
        unique=True,
        sqlite_where=sa.text("state = 'sending'"),
        postgresql_where=sa.text("state = 'sending'"),
    )
    op.create_table(
        "webhooks",
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("account", sa.Text(), server_default="default", nullable=False),
        sa.Column("feed", sa.Text(), server_default="default", nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("event_type", sa.Text(), nullable=False),
        sa.Column("is_active", sa.Boolean(), nullable=False),
        sa.Column("created_at", UTC_TIME, nullable=False),
        sa.Column("rotated_at", UTC_TIME, nullable=True),
        sa.PrimaryKeyConstraint("webhook_id"),
    )
    op.execute(CURRENT_RESULTS_VIEW)
