"""Page content is compressed with lz4 where Postgres was built with it: by default it takes most of a commit's time."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_OFFERED = "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"


def upgrade() -> None:
    if op.get_context().dialect.name != "postgresql" or not op.get_bind().scalar(sa.text(_OFFERED)):
        return
    for column in ("markdown", "html"):
        op.execute(f"ALTER TABLE results ALTER COLUMN {column} SET COMPRESSION lz4")
