"""Batches and crawls: what a submission is sent as, how far a job's results are read, where a page was found.

And indexes by which a tick finds what is open, however much is over.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

CURRENT_RESULTS_VIEW = """
CREATE VIEW current_results AS
SELECT job_id, item_key, account, feed, partition_key, target_id, attempt, url, labels, http_status, markdown, html,
       metadata, tokens_charged, content_sha256, is_empty, completed_at, stored_at, parent_url, depth
FROM (
    SELECT r.*, rank() OVER (
        PARTITION BY account, feed, partition_key, target_id ORDER BY attempt DESC
    ) AS age_rank
    FROM results AS r
) AS ranked
WHERE age_rank = 1
"""


def upgrade() -> None:
    op.add_column("submissions", sa.Column("kind", sa.Text(), server_default="extract", nullable=False))
    op.add_column("jobs", sa.Column("pages_read", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("pages_failed", sa.Integer(), server_default="0", nullable=False))
    op.execute("DROP VIEW current_results")
    op.add_column("results", sa.Column("parent_url", sa.Text(), nullable=True))
    op.add_column("results", sa.Column("depth", sa.Integer(), nullable=True))
    op.execute(CURRENT_RESULTS_VIEW)
    op.drop_index("ix_submissions_partition_state", "submissions")
    op.create_index("ix_submissions_state", "submissions", ["account", "feed", "state", "partition_key"])
    op.drop_index("ix_jobs_accepted", "jobs")
    op.create_index("ix_jobs_accepted", "jobs", ["account", "kind", "accepted_at"])
