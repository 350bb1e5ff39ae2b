"""Numbers of runs within their project, and runs that are archived by themselves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("project", schema=None) as batch_op:
        batch_op.add_column(sa.Column("last_run", sa.Integer(), server_default="0", nullable=False))
    with op.batch_alter_table("trial", schema=None) as batch_op:
        batch_op.add_column(
            sa.Column("local_number", sa.Integer(), server_default="0", nullable=False)
        )
        batch_op.add_column(
            sa.Column("archived", sa.Boolean(), server_default=sa.false(), nullable=False)
        )
    # What local ids have said until now: the id of the trial.
    op.execute(sa.text("UPDATE trial SET local_number = id"))
    op.execute(
        sa.text(
            "UPDATE project SET last_run = coalesce((SELECT max(trial.id) FROM trial"
            " JOIN experiment ON experiment.id = trial.experiment_id"
            " WHERE experiment.project_id = project.id), 0)"
        )
    )
