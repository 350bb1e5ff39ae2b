"""Webhooks and the events that they are called for, in the words of the published API without their prefixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class WebhookType(StrEnum):
    DEFAULT = "DEFAULT"
    """Our JSON."""
    SLACK = "SLACK"
    """Slack's block JSON."""


class WebhookMode(StrEnum):
    WORKSPACE = "WORKSPACE"
    """For all experiments in its scope."""
    SPECIFIC = "SPECIFIC"
    """For experiments whose configuration names it."""


class TriggerType(StrEnum):
    STATE_CHANGE = "EXPERIMENT_STATE_CHANGE"
    TASK_LOG = "TASK_LOG"
    CUSTOM = "CUSTOM"
    """`core_context.alert` of a trial."""
    METRIC = "METRIC_THRESHOLD_EXCEEDED"
    """Never fires; refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    id: int
    type: TriggerType
    state: str = ""
    """Of STATE_CHANGE: the state that an experiment gets."""
    regex: str = ""
    """Of TASK_LOG."""

    @property
    def condition(self) -> dict[str, str]:
        """On the wire."""
        if self.type is TriggerType.STATE_CHANGE:
            return {"state": self.state}
        return {"regex": self.regex} if self.type is TriggerType.TASK_LOG else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    id: int
    name: str
    url: str
    type: WebhookType
    mode: WebhookMode
    workspace_id: int | None
    """None: of the whole cluster."""
    triggers: Sequence[Trigger]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where something happened: the workspace, and what `integrations.webhooks` of the configuration says."""

    workspace_id: int
    ids: Sequence[int] = ()
    names: Sequence[str] = ()
    exclude: bool = False
    """None of them is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlace:
    """Where output comes from that is of no experiment."""

    task_id: str
    workspace_id: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentFacts:
    """Of an experiment, when an event happened."""

    id: int
    state: str
    name: str
    duration_s: int
    """0 while it has not ended."""
    resource_pool: str
    slots_per_trial: int
    trial_id: int | None = None
    workspace: str = ""
    project: str = ""

    def to_json(self) -> dict[str, Any]:
        found: Mapping[str, Any] = {
            "id": self.id,
            "state": self.state,
            "name": self.name,
            "duration": self.duration_s,
            "resource_pool": self.resource_pool,
            "slots_per_trial": self.slots_per_trial,
            "workspace": self.workspace,
            "project": self.project,
            "trial_id": self.trial_id,
        }
        return {key: value for key, value in found.items() if value not in (None, "")}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """Of a line that a regular expression matched."""

    task_id: str
    node: str
    line: str

    def to_json(self) -> dict[str, Any]:
        return {"task_id": self.task_id, "node_name": self.node, "triggering_log": self.line}


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomFacts:
    """What a program said."""

    title: str
    description: str
    level: str
    """INFO, WARNING, ERROR ..."""

    def to_json(self) -> dict[str, Any]:
        return {"title": self.title, "description": self.description, "level": self.level}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    id: str
    """The same in every attempt."""
    type: TriggerType
    at: int
    """Seconds since the epoch."""
    condition: Mapping[str, str]
    experiment: ExperimentFacts | None = None
    log: LogFacts | None = None
    custom: CustomFacts | None = None
    is_test: bool = False
