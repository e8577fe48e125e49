"""How far each webhook's delivery log was read whole, and rotations that were begun."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

UTC_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("webhooks", sa.Column("rotation_begun_at", UTC_TIME, nullable=True))
    op.add_column("webhooks", sa.Column("log_read_until", UTC_TIME, nullable=True))
