"""Log lines."""

from __future__ import annotations

from master.api.enums import LogLevel
from master.api.logs import replies
from master.api.logs.replies import TaskLog, TrialLog
from master.api.values import time
from master.logs.rows import LogFields, LogRow, format_message


def task_log(row: LogRow) -> TaskLog:
    return {
        "id": str(row.id),
        "taskId": row.task_id,
        "allocationId": row.allocation_id,
        "agentId": row.agent_id,
        "containerId": row.container_id,
        "rankId": row.rank_id,
        "timestamp": time(row.timestamp),
        "level": LogLevel.__members__.get(row.level or "", LogLevel.UNSPECIFIED),
        "log": row.log,
        "message": format_message(row),
        "source": row.source,
        "stdtype": row.stdtype,
    }


def log_fields(found: LogFields) -> replies.LogFields:
    return {
        "allocationIds": sorted(found.allocation_ids),
        "agentIds": sorted(found.agent_ids),
        "containerIds": sorted(found.container_ids),
        "rankIds": sorted(found.rank_ids),
        "sources": sorted(found.sources),
        "stdtypes": sorted(found.stdtypes),
    }


def trial_log(row: LogRow, trial_id: int) -> TrialLog:
    return {**task_log(row), "trialId": trial_id}
