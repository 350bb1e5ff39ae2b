"""What a generic task has beyond what every task has."""

from __future__ import annotations

import orjson
from typing_extensions import TypedDict

from master.api.enums import GenericTaskState
from master.api.tasks.replies import ListedGenericTask
from master.api.values import finite, time
from master.core.expconf.secrets import masked
from master.core.reasons import Reason
from master.core.visibility import Visibility
from master.tasks.generic import FORKED_FROM, SUBMITTED, GenericRow, ancestors
from master.tasks.machine import generic_state
from master.tasks.state import NO_PAUSE, TaskState


class Generic(TypedDict):
    taskState: GenericTaskState
    config: str
    forkedFrom: str | None
    parentId: str | None
    noPause: bool
    exitStatus: str
    waitingReason: str | None


def generic(state: TaskState, visible: Visibility, waiting: Reason | None) -> Generic:
    return {
        "taskState": GenericTaskState[generic_state(state)],
        "config": config_text(state, visible),
        "forkedFrom": state.details.get(FORKED_FROM) or None,
        "parentId": next(reversed(ancestors(state)), None),
        "noPause": bool(state.details.get(NO_PAUSE)),
        "exitStatus": state.exit_status,
        "waitingReason": None if waiting is None else waiting.text,
    }


def listed(row: GenericRow, waiting: Reason | None) -> ListedGenericTask:
    state = row.state
    return {
        "taskId": state.id,
        "name": state.config.description,
        "username": row.username,
        "taskState": GenericTaskState[generic_state(state)],
        "resourcePool": state.pool,
        "slotsNeeded": state.config.resources.slots,
        "registeredTime": time(row.created_at),
        "endTime": time(state.ended_at),
        "parentId": next(reversed(ancestors(state)), None),
        "exitStatus": state.exit_status,
        "waitingReason": None if waiting is None else waiting.text,
    }


def config_text(state: TaskState, visible: Visibility) -> str:
    """JSON; of another's task without its secrets."""
    submitted = state.details.get(SUBMITTED, {})
    if not visible.shows_secrets_of(state.owner_id):
        submitted = masked(submitted)
    return orjson.dumps(finite(submitted)).decode()
