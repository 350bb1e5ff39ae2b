"""Where the values of an experiment's configuration come from, and its template."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("experiment", schema=None) as batch_op:
        batch_op.add_column(sa.Column("config_origins", sa.JSON(none_as_null=True), nullable=True))
        batch_op.add_column(sa.Column("template", sa.String(), server_default="", nullable=False))
