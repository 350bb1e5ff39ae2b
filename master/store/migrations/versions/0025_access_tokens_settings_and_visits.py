"""Access tokens and settings of users, where sessions come from, projects looked at last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "access_token",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Integer(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["user.id"], name=op.f("fk_access_token_user_id_user")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_access_token")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_access_token_token_hash")),
    )
    with op.batch_alter_table("access_token", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_access_token_user_id"), ["user_id"], unique=False)

    op.create_table(
        "user_setting",
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("storage_path", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["user.id"], name=op.f("fk_user_setting_user_id_user")
        ),
        sa.PrimaryKeyConstraint("user_id", "storage_path", "key", name=op.f("pk_user_setting")),
    )
    op.create_table(
        "project_visit",
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("visited_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["project.id"],
            name=op.f("fk_project_visit_project_id_project"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["user.id"], name=op.f("fk_project_visit_user_id_user")
        ),
        sa.PrimaryKeyConstraint("user_id", "project_id", name=op.f("pk_project_visit")),
    )
    with op.batch_alter_table("project_visit", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_project_visit_project_id"), ["project_id"], unique=False
        )

    with op.batch_alter_table("usersession", schema=None) as batch_op:
        batch_op.add_column(sa.Column("address", sa.String(), server_default="", nullable=False))
