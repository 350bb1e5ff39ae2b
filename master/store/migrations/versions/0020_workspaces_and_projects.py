"""Workspaces and projects that users make: keys, pins, deletion."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_COLUMNS = ("name_key", "state", "error")


def upgrade() -> None:
    with op.batch_alter_table("workspace", schema=None) as batch_op:
        for name in _COLUMNS:
            batch_op.add_column(sa.Column(name, sa.String(), server_default="", nullable=False))
    with op.batch_alter_table("project", schema=None) as batch_op:
        for name in (*_COLUMNS, "key"):
            batch_op.add_column(sa.Column(name, sa.String(), server_default="", nullable=False))
        batch_op.add_column(sa.Column("notes", sa.JSON(), server_default="[]", nullable=False))
    op.create_table(
        "workspace_pin",
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("workspace_id", sa.Integer(), nullable=False),
        sa.Column("pinned_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["user.id"], name=op.f("fk_workspace_pin_user_id_user")
        ),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspace.id"], name=op.f("fk_workspace_pin_workspace_id_workspace")
        ),
        sa.PrimaryKeyConstraint("user_id", "workspace_id", name=op.f("pk_workspace_pin")),
    )
    op.create_table(
        "project_key",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_project_key")),
    )
    with op.batch_alter_table("project_key", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_project_key_project_id"), ["project_id"], unique=False)
    _fill()
    # Not constraints: SQLite would make these tables anew, which rows that refer to them prevent.
    with op.batch_alter_table("workspace", schema=None) as batch_op:
        batch_op.create_index("uq_workspace_name_key", ["name_key"], unique=True)
    with op.batch_alter_table("project", schema=None) as batch_op:
        batch_op.create_index("uq_project_workspace_id", ["workspace_id", "name_key"], unique=True)
        batch_op.create_index(batch_op.f("ix_project_workspace_id"), ["workspace_id"], unique=False)
    with op.batch_alter_table("experiment", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_experiment_project_id"), ["project_id"], unique=False)
    with op.batch_alter_table("command", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_command_workspace_id"), ["workspace_id"], unique=False)


def _fill() -> None:
    """There is the first workspace with the first project; more of them only somebody wrote by hand."""
    connection = op.get_bind()
    for table in ("workspace", "project"):
        one = sa.table(table, sa.column("id"), sa.column("name"), sa.column("name_key"))
        for id_, name in connection.execute(sa.select(one.c.id, one.c.name)).all():
            connection.execute(one.update().where(one.c.id == id_).values(name_key=name.casefold()))
    project = sa.table("project", sa.column("id"), sa.column("name"), sa.column("key"))
    used = sa.table("project_key", sa.column("key"), sa.column("project_id"))
    taken: set[str] = set()
    for id_, name in connection.execute(
        sa.select(project.c.id, project.c.name).order_by(project.c.id)
    ).all():
        key = name[:5].upper()
        key = f"P{id_}" if key in taken else key
        taken.add(key)
        connection.execute(project.update().where(project.c.id == id_).values(key=key))
        connection.execute(used.insert().values(key=key, project_id=id_))
