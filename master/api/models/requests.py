"""What is asked of models and their versions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from master.api.request_models import Body, FreeObject, Int32, LongText, Paging, Query, Text, Word
from master.models.queries import ModelFilter

_SORTS = ("NAME", "DESCRIPTION", "CREATION_TIME", "LAST_UPDATED_TIME", "NUM_VERSIONS", "WORKSPACE")
_VERSION_SORTS = ("VERSION", "CREATION_TIME")
_KINDS = ("INFERENCE", "FINE_TUNING")
MAX_LABELS = 1_000
MAX_LABEL = 1_000
"""Characters."""
Labels = Annotated[
    tuple[Annotated[Text, Field(max_length=MAX_LABEL)], ...], Field(max_length=MAX_LABELS)
]
VersionName = Annotated[Text, Field(max_length=1_000)]
PositiveId = Annotated[Int32, Field(ge=0)]
SourceKind = Annotated[str, Word("TRIAL_SOURCE_INFO_TYPE_", _KINDS)]


class ListModels(Paging):
    id: PositiveId = 0
    name: Text = ""
    """A part of it, in letters of any case, as the description."""
    description: Text = ""
    labels: tuple[Text, ...] = ()
    """One of them is enough."""
    archived: bool | None = None
    users: tuple[Text, ...] = ()
    user_ids: tuple[Int32, ...] = ()
    workspace_names: tuple[Text, ...] = ()
    workspace_ids: tuple[Int32, ...] = ()
    sort_by: Annotated[str, Word("SORT_BY_", _SORTS)] = ""

    def where(self) -> ModelFilter:
        return ModelFilter(
            id=self.id,
            name=self.name,
            description=self.description,
            labels=tuple(self.labels),
            archived=self.archived,
            users=tuple(user.lower() for user in self.users),
            user_ids=tuple(self.user_ids),
            workspace_names=tuple(self.workspace_names),
            workspace_ids=tuple(self.workspace_ids),
        )


class ListVersions(Paging):
    sort_by: Annotated[str, Word("SORT_BY_", _VERSION_SORTS)] = ""


class LabelsOf(Query):
    workspace_id: PositiveId = 0
    """0: of all."""


class InWorkspace(Body):
    """Says which workspace by its id or its name."""

    workspace_id: PositiveId = 0
    workspace_name: Text = ""


class PostModel(InWorkspace):
    name: Text
    description: LongText = ""
    notes: LongText = ""
    labels: Labels = ()
    metadata: FreeObject = Field(default_factory=dict)


class PatchModel(InWorkspace):
    name: Text | None = None
    description: LongText | None = None
    notes: LongText | None = None
    labels: Labels | None = None
    metadata: FreeObject | None = None


class MoveModel(Body):
    destination_workspace_id: Annotated[Int32, Field(ge=1)]


class PostVersion(Body):
    checkpoint_uuid: Text
    name: VersionName = ""
    comment: LongText = ""
    notes: LongText = ""
    labels: Labels = ()
    metadata: FreeObject = Field(default_factory=dict)


class OfCheckpoint(Body):
    uuid: Text = ""


class PatchVersion(Body):
    checkpoint: OfCheckpoint | None = None
    """It may only be the one that it is."""
    name: VersionName | None = None
    comment: LongText | None = None
    notes: LongText | None = None
    labels: Labels | None = None
    metadata: FreeObject | None = None


class TrialSource(Body):
    trial_id: PositiveId
    checkpoint_uuid: Text
    trial_source_info_type: SourceKind
    model_id: PositiveId | None = None
    model_version: PositiveId | None = None


class ReportTrialSource(Body):
    trial_source_info: TrialSource


class SourceMetrics(Query):
    metric_group: Text = ""
    """Of all, if it is empty."""
    trial_source_info_type: SourceKind = ""
