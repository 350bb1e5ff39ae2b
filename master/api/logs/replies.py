"""Log lines, as they are streamed."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.api.enums import LogLevel
from master.api.values import Int64, Timestamp


class TaskLog(TypedDict):
    id: Int64
    taskId: str
    allocationId: str | None
    agentId: str | None
    containerId: str | None
    rankId: int | None
    timestamp: Timestamp
    level: LogLevel
    log: str
    message: str
    """The line as clients print it."""
    source: str | None
    stdtype: str | None


class TrialLog(TaskLog):
    trialId: int


class LogFields(TypedDict):
    """All values that lines have, and that filters may ask for."""

    allocationIds: list[str]
    agentIds: list[str]
    containerIds: list[str]
    rankIds: list[int]
    sources: list[str]
    stdtypes: list[str]
