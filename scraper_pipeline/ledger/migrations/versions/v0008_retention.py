"""When the content of a day was dropped from the ledger, and at which of its revisions."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("partitions", sa.Column("pruned_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("partitions", sa.Column("pruned_revision", sa.BigInteger(), nullable=True))
