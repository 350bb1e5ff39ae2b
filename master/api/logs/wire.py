"""Log lines."""

from __future__ import annotations

from master.api.enums import LogLevel
from master.api.logs.replies import TaskLog, TrialLog
from master.api.values import time
from master.logs.rows import LogRow, format_message


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


def trial_log(row: LogRow, trial_id: int) -> TrialLog:
    return {**task_log(row), "trialId": trial_id}
