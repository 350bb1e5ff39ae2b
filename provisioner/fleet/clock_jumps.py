"""What a jump of the wall clock does to a fleet: nothing.

Times are kept as seconds since the epoch, for people and restarts. When the wall clock jumps, all of them are moved by
the same distance, so that everything is exactly as old as it was: no boot fails, no idle node goes, no block ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from provisioner.fleet.instances import InstanceRecord
from provisioner.fleet.state import FleetState

_INTENT_TIMES = ("created_at", "accepted_at", "called_at", "next_try_at", "last_reply_at")
_INSTANCE_TIMES = (
    *("created_at", "started_at", "ready_at", "ended_at", "idle_since", "silent_since"),
    *("first_look_at", "terminate_since", "terminate_called_at", "terminate_acked_at"),
    *("stopping_since", "switch_called_at", "late_stop_until"),
    *("lost_since", "moving_since", "replacement_at"),
)
_BAKE_TIMES = ("created_at", "installed_at", "ended_at", "next_try_at", "nothing_left_at")
_DECISION_TIMES = ("first_at", "last_at", "written_at")
_STOP_TIMES = ("since", "until", "ready_at")
_T = TypeVar("_T")


def shifted(state: FleetState, by_s: float) -> FleetState:
    """The same fleet, exactly as old, on a clock that has jumped."""
    if not by_s:
        return state
    memory, first = state.memory, state.ledger.first_launch_at
    blocks = {scope: _moved(block, ("until",), by_s) for scope, block in memory.blocks.items()}
    return replace(
        state,
        watching_since=state.watching_since + by_s,
        intents={id_: _moved(x, _INTENT_TIMES, by_s) for id_, x in state.intents.items()},
        instances={id_: _moved_machine(x, by_s) for id_, x in state.instances.items()},
        bakes={
            id_: x if x.is_over else _moved(x, _BAKE_TIMES, by_s) for id_, x in state.bakes.items()
        },
        decisions={id_: _moved(x, _DECISION_TIMES, by_s) for id_, x in state.decisions.items()},
        memory=replace(memory, blocks=blocks),
        ledger=replace(state.ledger, first_launch_at=None if first is None else first + by_s),
        ended_lost=tuple(at + by_s for at in state.ended_lost),
    )


def _moved_machine(record: InstanceRecord, by_s: float) -> InstanceRecord:
    stops = tuple(_moved(stop, _STOP_TIMES, by_s) for stop in record.stops)
    return _moved(replace(record, stops=stops), _INSTANCE_TIMES, by_s)


def _moved(record: _T, names: Iterable[str], by_s: float) -> _T:
    times: dict[str, Any] = {name: getattr(record, name) for name in names}
    later = {name: at + by_s for name, at in times.items() if at is not None}
    moved: _T = replace(record, **later)  # type: ignore[type-var]
    return moved
