"""Which calls to providers are due by what is committed."""

from __future__ import annotations

from dataclasses import replace

from provisioner.fleet.calls import Calls
from provisioner.fleet.intents import launch_call
from provisioner.fleet.snapshot import (
    asked_after,
    asked_to_end,
    called,
    due_answers,
    due_cancels,
    due_launches,
    due_starts,
    due_stops,
    due_terminations,
    failed_boots,
    switch_called,
)
from provisioner.fleet.state import FleetState
from provisioner.images.records import asked_for_images, due_images
from provisioner.planning.stop_value import start_of
from provisioner.providers.base import Api


def start_due(state: FleetState, calls: Calls, now: float) -> FleetState:
    """Start every call that is due and may be made now. The state with these under way."""
    may = calls.may
    launches = [x for x in due_launches(state, now) if may(x.provider, Api.LAUNCH)]
    state = called(state, launches, now)
    for intent in launches:
        calls.launch(state.intents[intent.id], launch_call(intent, state.cluster_id))
    answers = [x for x in due_answers(state, now) if may(x.provider, Api.LAUNCH)]
    cancels = [x for x in due_cancels(state, now) if may(x.provider, Api.TERMINATE)]
    state = asked_after(state, [*answers, *cancels])
    for intent in answers:
        calls.answer(intent)
    for intent in cancels:
        calls.cancel(intent)
    images = [x for x in due_images(state.bakes, now) if may(x.offer.key.provider, Api.LAUNCH)]
    state = replace(state, bakes=asked_for_images(state.bakes, images))
    for bake in images:
        calls.image(bake.order(state.cluster_id), remove=bake.is_removing)
    starts = [x for x in due_starts(state, now) if may(x.provider, Api.LAUNCH)]
    stops = [x for x in due_stops(state, now) if may(x.provider, Api.TERMINATE)]
    state = switch_called(state, [*starts, *stops], now)
    for record in starts:
        calls.switch_on(record, start_of(record.offer, state.memory))
    for record in stops:
        calls.stop(record)
    for provider, instance_ids in due_terminations(state, now).items():
        if may(provider, Api.TERMINATE):
            silent = failed_boots(state, instance_ids)
            state = asked_to_end(state, instance_ids, now)
            calls.terminate(provider, instance_ids, failed_boots=silent)
    return state
