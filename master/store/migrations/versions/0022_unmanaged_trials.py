"""Ids that processes outside of the cluster give their trials."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("trial", schema=None) as batch_op:
        batch_op.add_column(sa.Column("external_id", sa.String(), nullable=True))
        batch_op.create_index("ix_trial_external_id", ["experiment_id", "external_id"], unique=True)
    with op.batch_alter_table("experiment", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_experiment_external_id"))
        batch_op.create_index(batch_op.f("ix_experiment_external_id"), ["external_id"], unique=True)
