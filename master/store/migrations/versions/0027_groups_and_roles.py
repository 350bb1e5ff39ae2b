"""Groups of users, and who holds which role.

As if they had been made since then: the owner of a workspace administrates it, and `admin` the cluster.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

CLUSTER_ADMIN, WORKSPACE_ADMIN = 1, 2


def upgrade() -> None:
    op.create_table(
        "user_group",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_user_group")),
        sa.UniqueConstraint("name", name=op.f("uq_user_group_name")),
    )
    op.create_table(
        "user_group_member",
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["user_group.id"], name=op.f("fk_user_group_member_group_id_user_group")
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["user.id"], name=op.f("fk_user_group_member_user_id_user")
        ),
        sa.PrimaryKeyConstraint("group_id", "user_id", name=op.f("pk_user_group_member")),
    )
    assignment = op.create_table(
        "role_assignment",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("role_id", sa.Integer(), nullable=False),
        sa.Column("workspace_id", sa.Integer(), nullable=True),
        sa.Column("user_id", sa.Integer(), nullable=True),
        sa.Column("group_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["group_id"], ["user_group.id"], name=op.f("fk_role_assignment_group_id_user_group")
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["user.id"], name=op.f("fk_role_assignment_user_id_user")
        ),
        sa.ForeignKeyConstraint(
            ["workspace_id"],
            ["workspace.id"],
            name=op.f("fk_role_assignment_workspace_id_workspace"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_role_assignment")),
    )
    with op.batch_alter_table("role_assignment", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_role_assignment_workspace_id"), ["workspace_id"], unique=False
        )
    rows = _first_assignments(op.get_bind())
    if rows:
        op.bulk_insert(assignment, rows)


def _first_assignments(bind: sa.Connection) -> list[dict[str, int | None]]:
    user = sa.table("user", sa.column("id", sa.Integer), sa.column("username", sa.String))
    workspace = sa.table(
        "workspace",
        sa.column("id", sa.Integer),
        sa.column("user_id", sa.Integer),
        sa.column("immutable", sa.Boolean),
    )
    admins = bind.execute(sa.select(user.c.id).where(user.c.username == "admin")).scalars()
    held: list[tuple[int, int | None, int]] = [(CLUSTER_ADMIN, None, id_) for id_ in admins]
    own = sa.select(workspace.c.id, workspace.c.user_id).where(
        workspace.c.immutable.is_(False), workspace.c.user_id.in_(sa.select(user.c.id))
    )
    held += [
        (WORKSPACE_ADMIN, id_, owner)
        for id_, owner in bind.execute(own.order_by(workspace.c.id)).all()
    ]
    return [
        {"id": number, "role_id": role, "workspace_id": where, "user_id": who, "group_id": None}
        for number, (role, where, who) in enumerate(held, start=1)
    ]
