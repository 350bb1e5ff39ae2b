"""What is asked of workspaces and projects."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agent_bootstrap.container_options import OsId, OsName
from master.api.request_models import (
    Body,
    FreeObject,
    Int32,
    LongText,
    Paging,
    Query,
    Text,
    Word,
)
from master.workspaces.queries import NamedFilter
from master.workspaces.service import WorkspacePatch
from windlass.base.errors import InvalidArgument

_SORTS = ("ID", "NAME", "CREATION_TIME", "LAST_EXPERIMENT_START_TIME", "DESCRIPTION")
MAX_NOTES = 1_000


class ListNamed(Paging):
    name: Text = ""
    """The whole name, in letters of any case."""
    name_case_sensitive: Text = ""
    archived: bool | None = None
    pinned: bool | None = None
    users: tuple[str, ...] = ()
    user_ids: tuple[Int32, ...] = ()
    sort_by: Annotated[str, Word("SORT_BY_", _SORTS)] = ""

    def where(self) -> NamedFilter:
        return NamedFilter(
            name=self.name,
            exact_name=self.name_case_sensitive,
            archived=self.archived,
            pinned=self.pinned,
            users=tuple(user.lower() for user in self.users),
            user_ids=tuple(self.user_ids),
        )


class AgentUser(Query):
    """As whom tasks of a workspace run; null clears a field."""

    agent_uid: OsId | None = None
    agent_user: OsName | None = None
    agent_gid: OsId | None = None
    agent_group: OsName | None = None

    def given(self) -> dict[str, object]:
        """By the fields of `WorkspaceUser`."""
        return {
            field.removeprefix("agent_"): getattr(self, field) for field in self.model_fields_set
        }


class WorkspaceBody(Body):
    """Null leaves a field as it is; an empty pool or storage is the cluster's."""

    agent_user_group: AgentUser | None = None
    checkpoint_storage_config: FreeObject | None = None
    default_compute_pool: Text | None = None
    default_compute_resource_pool: Text | None = None
    """As the one before: published clients write it so in a PATCH."""
    default_aux_pool: Text | None = None
    default_aux_resource_pool: Text | None = None
    cluster_namespace_meta: FreeObject | None = None
    cluster_quota_pairs: FreeObject | None = None

    def patch(self, name: str | None = None) -> WorkspacePatch:
        """Raises InvalidArgument for what is of Kubernetes."""
        if self.cluster_namespace_meta or self.cluster_quota_pairs:
            raise no_kubernetes()
        user = self.agent_user_group
        return WorkspacePatch(
            name=name,
            agent_user=user.given() if user is not None else None,
            default_compute_pool=_one_of(
                self.default_compute_resource_pool, self.default_compute_pool
            ),
            default_aux_pool=_one_of(self.default_aux_resource_pool, self.default_aux_pool),
            checkpoint_storage=self.checkpoint_storage_config,
        )


def _one_of(first: str | None, second: str | None) -> str | None:
    return second if first is None else first


class CreateWorkspace(WorkspaceBody):
    name: Text


class PatchWorkspace(WorkspaceBody):
    name: Text | None = None


class CreateProject(Body):
    name: Text
    description: LongText = ""
    key: Text | None = None


class PatchProject(Body):
    name: Text | None = None
    description: LongText | None = None
    key: Text | None = None


class Note(Body):
    name: LongText = ""
    contents: LongText = ""


class ProjectNotes(Body):
    notes: Annotated[tuple[Note, ...], Field(max_length=MAX_NOTES)] = ()


class MoveProject(Body):
    destination_workspace_id: Annotated[Int32, Field(ge=0)]


def no_kubernetes() -> InvalidArgument:
    return InvalidArgument(
        "namespace bindings and resource quotas are of Kubernetes, which this cluster does not use"
    )
