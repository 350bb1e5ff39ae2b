"""What creating and listing experiments takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from master.api.http.file_bodies import FileBody, parse_body
from master.api.request_models import Body, Int32, Paging, Priority, RowId, Text, Word
from master.core.jobs import JobChange, SetMaxSlots, SetPriority, SetWeight
from master.store.contexts import ContextFile

EXPERIMENT_STATES = (
    "ACTIVE",
    "PAUSED",
    "STOPPING_COMPLETED",
    "STOPPING_CANCELED",
    "STOPPING_ERROR",
    "STOPPING_KILLED",
    "COMPLETED",
    "CANCELED",
    "ERROR",
    "DELETED",
    "DELETING",
    "DELETE_FAILED",
    "QUEUED",
    "PULLING",
    "STARTING",
    "RUNNING",
)
EXPERIMENT_SORTS = (
    "ID",
    "DESCRIPTION",
    "START_TIME",
    "END_TIME",
    "STATE",
    "NUM_TRIALS",
    "PROGRESS",
    "USER",
    "NAME",
    "FORKED_FROM",
    "RESOURCE_POOL",
    "PROJECT_ID",
    "CHECKPOINT_SIZE",
    "CHECKPOINT_COUNT",
    "SEARCHER_METRIC_VAL",
)
TRIAL_SORTS = (
    "ID",
    "START_TIME",
    "END_TIME",
    "STATE",
    "BEST_VALIDATION_METRIC",
    "LATEST_VALIDATION_METRIC",
    "BATCHES_PROCESSED",
    "RESTARTS",
    "CHECKPOINT_SIZE",
)
DEFAULT_LIMIT = 100
"""Of the list of experiments, when none is asked for."""

State = Annotated[str, Word("STATE_", EXPERIMENT_STATES)]


class CreateExperiment(Body):
    config: str = ""
    activate: bool = False
    model_definition: tuple[FileBody, ...] = ()
    parent_id: Int32 = 0
    project_id: Int32 = 0
    template: Text = ""
    unmanaged: bool = False
    validate_only: bool = False


def read_create(body: bytes) -> tuple[CreateExperiment, tuple[ContextFile, ...]]:
    """Parse a large body; for a thread. Raises InvalidArgument that names the field."""
    request = parse_body(CreateExperiment, body)
    return request, tuple(f.context_file("modelDefinition") for f in request.model_definition)


class ContinueExperiment(Body):
    id: RowId
    override_config: str = ""
    """YAML, laid over the active configuration."""


class PatchResources(Body):
    """What is missing stays. For `maxSlots` alone null is a value: no limit."""

    max_slots: Int32 | None = None
    weight: float | None = None
    priority: Priority | None = None

    @model_validator(mode="before")
    @classmethod
    def _null_is_unset(cls, data: Any) -> Any:
        return data

    def changes(self) -> list[JobChange]:
        """Raises InvalidArgument."""
        changes: list[JobChange] = []
        if "max_slots" in self.model_fields_set:
            changes.append(SetMaxSlots(self.max_slots))
        if self.weight is not None:
            changes.append(SetWeight(self.weight))
        if self.priority is not None:
            changes.append(SetPriority(self.priority))
        return changes


class PatchCheckpointStorage(Body):
    save_experiment_best: Annotated[Int32, Field(ge=0)] | None = None
    save_trial_best: Annotated[Int32, Field(ge=0)] | None = None
    save_trial_latest: Annotated[Int32, Field(ge=0)] | None = None

    def changes(self) -> dict[str, int]:
        return self.model_dump(exclude_none=True)


class PatchExperiment(Body):
    name: Text | None = None
    description: Text | None = None
    notes: Text | None = None
    labels: list[Text] | None = None
    resources: PatchResources | None = None
    checkpoint_storage: PatchCheckpointStorage | None = None


class ListExperiments(Paging):
    name: str = ""
    description: str = ""
    labels: tuple[str, ...] = ()
    archived: bool | None = None
    states: tuple[State, ...] = ()
    users: tuple[str, ...] = ()
    user_ids: tuple[Int32, ...] = ()
    project_id: Int32 = 0
    show_trial_data: bool = False
    omit_config: bool = False
    """Our own: without configurations, and what is read from them. Large lists are a tenth as large."""
    sort_by: Annotated[str, Word("SORT_BY_", EXPERIMENT_SORTS)] = ""
    gt: Int32 | None = Field(None, alias="experimentIdFilter.gt")
    gte: Int32 | None = Field(None, alias="experimentIdFilter.gte")
    lt: Int32 | None = Field(None, alias="experimentIdFilter.lt")
    lte: Int32 | None = Field(None, alias="experimentIdFilter.lte")
    incl: tuple[Int32, ...] = Field((), alias="experimentIdFilter.incl")
    not_in: tuple[Int32, ...] = Field((), alias="experimentIdFilter.notIn")

    @field_validator("limit")
    @classmethod
    def _known_limit(cls, limit: int) -> int:
        if limit < -2:
            raise ValueError("must be -2 (none), -1 (all), 0 (some) or a number of experiments")
        return limit

    def id_filters(self) -> Mapping[str, Sequence[int]]:
        single = {"gt": self.gt, "gte": self.gte, "lt": self.lt, "lte": self.lte}
        found: dict[str, Sequence[int]] = {
            name: [value] for name, value in single.items() if value is not None
        }
        return {**found, "incl": self.incl, "notIn": self.not_in}

    @property
    def row_limit(self) -> int | None:
        """None: all."""
        return {0: DEFAULT_LIMIT, -1: None, -2: 0}.get(self.limit, self.limit)


class ListTrials(Paging):
    states: tuple[State, ...] = ()
    sort_by: Annotated[str, Word("SORT_BY_", (*TRIAL_SORTS, "DURATION", "LOG_RETENTION_DAYS"))] = ""
