"""Everything of the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agent",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("instance_id", sa.String(), nullable=True),
        sa.Column("first_seen", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_agent")),
    )
    op.create_table(
        "checkpoint",
        sa.Column("uuid", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("allocation_id", sa.String(), nullable=True),
        sa.Column("trial_id", sa.Integer(), nullable=True),
        sa.Column("experiment_id", sa.Integer(), nullable=True),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=False),
        sa.Column("resources", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("meta", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("storage_id", sa.Integer(), nullable=True),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("uuid", name=op.f("pk_checkpoint")),
    )
    with op.batch_alter_table("checkpoint", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_checkpoint_experiment_id"), ["experiment_id"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_checkpoint_task_id"), ["task_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_checkpoint_trial_id"), ["trial_id"], unique=False)

    op.create_table(
        "fleetinstance",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("gone", sa.Boolean(), nullable=False),
        sa.Column("document", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fleetinstance")),
    )
    with op.batch_alter_table("fleetinstance", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_fleetinstance_gone"), ["gone"], unique=False)
        batch_op.create_index(batch_op.f("ix_fleetinstance_pool"), ["pool"], unique=False)

    op.create_table(
        "fleetintent",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("document", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("finished", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fleetintent")),
    )
    with op.batch_alter_table("fleetintent", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_fleetintent_finished"), ["finished"], unique=False)

    op.create_table(
        "leader",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("master_id", sa.String(), nullable=False),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leader")),
    )
    op.create_table(
        "meta",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_meta")),
    )
    op.create_table(
        "metric",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("group", sa.String(), nullable=False),
        sa.Column("steps", sa.BigInteger(), nullable=True),
        sa.Column("metrics", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metric")),
    )
    with op.batch_alter_table("metric", schema=None) as batch_op:
        batch_op.create_index("ix_metric_trial_group", ["trial_id", "group", "steps"], unique=False)

    op.create_table(
        "port",
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("allocation_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("port", name=op.f("pk_port")),
    )
    with op.batch_alter_table("port", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_port_allocation_id"), ["allocation_id"], unique=False)

    op.create_table(
        "storagebackend",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("config_hash", sa.String(), nullable=False),
        sa.Column("config", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_storagebackend")),
        sa.UniqueConstraint("config_hash", name=op.f("uq_storagebackend_config_hash")),
    )
    op.create_table(
        "task",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=True),
        sa.Column("trial_id", sa.Integer(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task")),
    )
    with op.batch_alter_table("task", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_task_experiment_id"), ["experiment_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_task_job_id"), ["job_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_task_trial_id"), ["trial_id"], unique=False)

    op.create_table(
        "user",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("username", sa.String(), nullable=False),
        sa.Column("display_name", sa.String(), nullable=False),
        sa.Column("password_hash", sa.String(), nullable=False),
        sa.Column("admin", sa.Boolean(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("remote", sa.Boolean(), nullable=False),
        sa.Column("agent_user_group", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("modified_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_auth_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_user")),
        sa.UniqueConstraint("username", name=op.f("uq_user_username")),
    )
    op.create_table(
        "workspace",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("immutable", sa.Boolean(), nullable=False),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workspace")),
        sa.UniqueConstraint("name", name=op.f("uq_workspace_name")),
    )
    op.create_table(
        "allocation",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=True),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.Column("document", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("exit_reason", sa.String(), nullable=False),
        sa.Column("exit_error", sa.String(), nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_allocation_task_id_task")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_allocation")),
    )
    with op.batch_alter_table("allocation", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_allocation_is_open"), ["is_open"], unique=False)
        batch_op.create_index(batch_op.f("ix_allocation_task_id"), ["task_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_allocation_token_hash"), ["token_hash"], unique=False)

    op.create_table(
        "project",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("workspace_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("immutable", sa.Boolean(), nullable=False),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspace.id"], name=op.f("fk_project_workspace_id_workspace")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_project")),
    )
    op.create_table(
        "usersession",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["user.id"], name=op.f("fk_usersession_user_id_user")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usersession")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_usersession_token_hash")),
    )
    with op.batch_alter_table("usersession", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_usersession_user_id"), ["user_id"], unique=False)

    op.create_table(
        "allocationaccelerator",
        sa.Column("allocation_id", sa.String(), nullable=False),
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("node_name", sa.String(), nullable=False),
        sa.Column("accelerator_type", sa.String(), nullable=False),
        sa.Column("accelerator_uuids", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["allocation_id"],
            ["allocation.id"],
            name=op.f("fk_allocationaccelerator_allocation_id_allocation"),
        ),
        sa.PrimaryKeyConstraint(
            "allocation_id", "container_id", name=op.f("pk_allocationaccelerator")
        ),
    )
    op.create_table(
        "experiment",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("owner_id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("parent_id", sa.Integer(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("labels", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("notes", sa.String(), nullable=False),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("unmanaged", sa.Boolean(), nullable=False),
        sa.Column("external_id", sa.String(), nullable=True),
        sa.Column("config", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("original_config", sa.Text(), nullable=False),
        sa.Column("model_definition", sa.String(), nullable=True),
        sa.Column("model_files", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("resource_pool", sa.String(), nullable=False),
        sa.Column("progress", sa.Float(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["user.id"], name=op.f("fk_experiment_owner_id_user")
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["project.id"], name=op.f("fk_experiment_project_id_project")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_experiment")),
    )
    with op.batch_alter_table("experiment", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_experiment_created_at"), ["created_at"], unique=False)
        batch_op.create_index(
            batch_op.f("ix_experiment_external_id"), ["external_id"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_experiment_job_id"), ["job_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_experiment_owner_id"), ["owner_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_experiment_state"), ["state"], unique=False)

    op.create_table(
        "searcherevent",
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("event", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("actions", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"],
            ["experiment.id"],
            name=op.f("fk_searcherevent_experiment_id_experiment"),
        ),
        sa.PrimaryKeyConstraint("experiment_id", "seq", name=op.f("pk_searcherevent")),
    )
    op.create_table(
        "searchersnapshot",
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("state", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["experiment_id"],
            ["experiment.id"],
            name=op.f("fk_searchersnapshot_experiment_id_experiment"),
        ),
        sa.PrimaryKeyConstraint("experiment_id", name=op.f("pk_searchersnapshot")),
    )
    op.create_table(
        "trial",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("experiment_id", sa.Integer(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("hparams", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.Column("aborts", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("progress", sa.Float(), nullable=False),
        sa.Column("searcher_stopped", sa.Boolean(), nullable=False),
        sa.Column("early_exit", sa.String(), nullable=True),
        sa.Column("early_exit_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column("warm_start_checkpoint", sa.String(), nullable=True),
        sa.Column("latest_checkpoint", sa.String(), nullable=True),
        sa.Column("latest_checkpoint_steps", sa.Integer(), nullable=False),
        sa.Column("steps_completed", sa.Integer(), nullable=False),
        sa.Column("best_validation_id", sa.Integer(), nullable=True),
        sa.Column("latest_validation_id", sa.Integer(), nullable=True),
        sa.Column("searcher_metric", sa.Float(), nullable=True),
        sa.Column("latest_searcher_metric", sa.Float(), nullable=True),
        sa.Column("summary_metrics", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("metric_groups", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("runner_state", sa.String(), nullable=False),
        sa.Column("run_metadata", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_activity", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiment.id"], name=op.f("fk_trial_experiment_id_experiment")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trial")),
        sa.UniqueConstraint("experiment_id", "request_id", name=op.f("uq_trial_experiment_id")),
    )
    with op.batch_alter_table("trial", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_trial_experiment_id"), ["experiment_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_trial_task_id"), ["task_id"], unique=False)
