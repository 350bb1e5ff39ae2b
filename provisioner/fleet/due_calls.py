"""Which calls to providers are due by what is committed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

from provisioner.fleet.calls import Calls
from provisioner.fleet.instances import (
    CONSOLE_SAYS,
    TERMINATE_RETRY_S,
    EndKind,
    InstanceRecord,
    InstanceState,
)
from provisioner.fleet.intents import IntentRecord, IntentState, launch_call
from provisioner.fleet.state import FleetState
from provisioner.fleet.stops import START_RETRY_S, STOP_RETRY_S
from provisioner.images.records import asked_for_images, due_images
from provisioner.planning.scale_down.stop_value import start_of
from provisioner.providers.base import LimitedCall


def start_due(state: FleetState, calls: Calls, now: float) -> FleetState:
    """Start every call that is due and may be made now. The state with these under way."""
    may = calls.may
    launches = [x for x in due_launches(state, now) if may(x.provider, LimitedCall.LAUNCH)]
    state = called(state, launches, now)
    for intent in launches:
        calls.launch(state.intents[intent.id], launch_call(intent, state.cluster_id))
    answers = [x for x in due_answers(state, now) if may(x.provider, LimitedCall.LAUNCH)]
    cancels = [x for x in due_cancels(state, now) if may(x.provider, LimitedCall.TERMINATE)]
    state = asked_after(state, [*answers, *cancels])
    for intent in answers:
        calls.answer(intent)
    for intent in cancels:
        calls.cancel(intent)
    images = [
        x for x in due_images(state.bakes, now) if may(x.offer.key.provider, LimitedCall.LAUNCH)
    ]
    state = replace(state, bakes=asked_for_images(state.bakes, images))
    for bake in images:
        calls.image(bake.order(state.cluster_id), remove=bake.is_removing)
    starts = [x for x in due_starts(state, now) if may(x.provider, LimitedCall.LAUNCH)]
    stops = [x for x in due_stops(state, now) if may(x.provider, LimitedCall.TERMINATE)]
    state = switch_called(state, [*starts, *stops], now)
    for record in starts:
        calls.switch_on(record, start_of(record.offer, state.memory))
    for record in stops:
        calls.stop(record)
    for provider, instance_ids in due_terminations(state, now).items():
        if may(provider, LimitedCall.TERMINATE):
            silent = failed_boots(state, instance_ids)
            state = asked_to_end(state, instance_ids, now)
            calls.terminate(provider, instance_ids, failed_boots=silent)
    return state


def due_launches(state: FleetState, now: float) -> list[IntentRecord]:
    """Committed intents whose call, first or repeated, is due."""
    if state.closing:
        return []
    open_states = (IntentState.INTENT, IntentState.CALLED)
    due = _due(state, now, *open_states)
    return [x for x in due if not x.token_is_spent and not x.given_up]


def due_answers(state: FleetState, now: float) -> list[IntentRecord]:
    """Accepted launches that are to be asked after."""
    return _due(state, now, IntentState.ACCEPTED)


def due_cancels(state: FleetState, now: float) -> list[IntentRecord]:
    """Accepted launches whose cancellation is committed and must be asked for, first or again."""
    return _due(state, now, IntentState.CANCELLING)


def _due(state: FleetState, now: float, *states: IntentState) -> list[IntentRecord]:
    return [x for x in state.intents.values() if x.state in states and x.next_try_at <= now]


def asked_after(state: FleetState, intents: Sequence[IntentRecord]) -> FleetState:
    """The state with calls about these accepted launches under way."""
    changed = {x.id: replace(x, tries=x.tries + 1, next_try_at=inf) for x in intents}
    return replace(state, intents={**state.intents, **changed})


def called(state: FleetState, intents: Sequence[IntentRecord], now: float) -> FleetState:
    """The state with these calls under way."""
    changed = {
        intent.id: replace(
            intent,
            state=IntentState.CALLED,
            called_at=now if intent.called_at is None else intent.called_at,
            tries=intent.tries + 1,
            next_try_at=inf,
        )
        for intent in intents
    }
    return replace(state, intents={**state.intents, **changed})


def due_terminations(state: FleetState, now: float) -> dict[str, list[str]]:
    """Provider -> instances whose end is committed and must be asked for, first or again."""
    due: dict[str, list[str]] = {}
    for record in state.instances.values():
        if record.state is InstanceState.TERMINATING:
            last = record.terminate_called_at
            if last is None or now - last >= TERMINATE_RETRY_S:
                due.setdefault(record.provider, []).append(record.id)
    return due


def due_stops(state: FleetState, now: float) -> list[InstanceRecord]:
    """Machines whose stop is committed and must be asked for, first or again."""
    return _due_switches(state, now, InstanceState.STOPPING, STOP_RETRY_S)


def due_starts(state: FleetState, now: float) -> list[InstanceRecord]:
    """Stopped machines whose start is committed and must be asked for, first or again."""
    if state.closing:
        return []
    return _due_switches(state, now, InstanceState.STARTING, START_RETRY_S)


def _due_switches(
    state: FleetState, now: float, wanted: InstanceState, retry_s: float
) -> list[InstanceRecord]:
    return [
        record
        for record in state.instances.values()
        if record.state is wanted
        and (record.switch_called_at is None or now - record.switch_called_at >= retry_s)
    ]


def switch_called(state: FleetState, records: Sequence[InstanceRecord], now: float) -> FleetState:
    """The state with these calls to stop or start machines under way."""
    changed = {
        x.id: replace(x, switch_called_at=now, stop_under_way=x.state is InstanceState.STOPPING)
        for x in records
    }
    return replace(state, instances={**state.instances, **changed})


def failed_boots(state: FleetState, instance_ids: Iterable[str]) -> list[str]:
    """Those that never had an agent, and are to be ended for the first time: their consoles say why."""
    found = [state.instances[instance_id] for instance_id in instance_ids]
    return [
        x.id
        for x in found
        if x.end_kind is EndKind.BOOT
        and x.terminate_called_at is None
        and CONSOLE_SAYS not in x.reason
    ]


def asked_to_end(state: FleetState, instance_ids: Sequence[str], now: float) -> FleetState:
    """The state with these terminate calls under way."""
    changed = {id_: replace(state.instances[id_], terminate_called_at=now) for id_ in instance_ids}
    return replace(state, instances={**state.instances, **changed})
