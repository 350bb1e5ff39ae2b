"""Default pools and checkpoint storage of workspaces; which experiments a TensorBoard shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("workspace", schema=None) as batch_op:
        batch_op.add_column(sa.Column("default_compute_pool", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("default_aux_pool", sa.String(), nullable=True))
        batch_op.add_column(
            sa.Column("checkpoint_storage", sa.JSON(none_as_null=True), nullable=True)
        )
    shown = op.create_table(
        "shown_experiment",
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["task_id"], ["command.id"], name=op.f("fk_shown_experiment_task_id_command")
        ),
        sa.PrimaryKeyConstraint("task_id", "experiment_id", name=op.f("pk_shown_experiment")),
    )
    with op.batch_alter_table("shown_experiment", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_shown_experiment_experiment_id"), ["experiment_id"], unique=False
        )
    if rows := list(_shown(op.get_bind())):
        op.bulk_insert(shown, rows)


def _shown(bind: sa.Connection) -> Iterator[dict[str, object]]:
    """By the names of what each of them reads: experiment/7, or experiment/7/trial/9."""
    task = sa.table(
        "command",
        sa.column("id", sa.String),
        sa.column("type", sa.String),
        sa.column("details", sa.JSON),
    )
    boards = sa.select(task.c.id, task.c.details).where(task.c.type == "TENSORBOARD")
    for id_, details in bind.execute(boards):
        named = re.findall(r'"name": ?"experiment/(\d+)[/"]', json.dumps(details))
        for experiment in sorted({int(number) for number in named}):
            yield {"task_id": id_, "experiment_id": experiment}
