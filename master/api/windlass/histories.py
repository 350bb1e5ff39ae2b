"""What happened to experiments and trials, and where trials ran: our own addition to the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from typing_extensions import TypedDict

from master.allocations.machine import AllocationState
from master.allocations.outcome import OutcomeKind
from master.api.access import Visible
from master.api.paging import Pagination, pagination
from master.api.permits import VISIBLE, permit
from master.api.replies import Reply, reply
from master.api.request_models import Paging, RowId
from master.api.routing import ApiRoute
from master.api.services import ApiContext, TheApi
from master.api.values import RUN_STATES, Timestamp, time
from master.api.windlass.event_texts import is_problem, text_of
from master.api.windlass.replies import Offer
from master.api.windlass.wire import known_usd, shown_offer
from master.auth.actions import Action
from master.costs.open_machines import OpenMachine
from master.experiments.queries.events import Event, EventKind
from master.store.paging import Paged

router = APIRouter(prefix="/api/v1/windlass", route_class=ApiRoute, tags=["windlass"])

MOST_ROWS = 1_000
"""Of one answer."""


class Rows(Paging):
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 200


class EventRow(TypedDict):
    at: Timestamp
    kind: EventKind
    trialId: int | None
    allocationId: str | None
    checkpointUuid: str | None
    agents: list[str]
    """Where it happened."""
    isProblem: bool
    """Something failed or was lost."""
    text: str
    """In one sentence."""


class EventsReply(TypedDict):
    events: list[EventRow]
    pagination: Pagination


class MachineOfRun(TypedDict):
    agentId: str
    slots: int
    """How many of its slots the run holds or held."""
    offer: Offer | None
    """What was bought. Null: not an elastic machine, or it is gone and wholly booked."""
    usdPerHour: float | None
    """Of the whole machine. Null: see `offer`, or its price is unknown."""


class RunOfTrial(TypedDict):
    """An allocation: from its request for slots to its end."""

    allocationId: str
    runId: int
    state: str
    """QUEUED, PULLING, STARTING, RUNNING, or ENDED."""
    pool: str
    """Where its slots are."""
    fellBackBecause: str
    """Why not in its own pool; empty: it is there."""
    slots: int
    requestedAt: Timestamp
    pulledAt: Timestamp | None
    startedAt: Timestamp | None
    preemptionRequestedAt: Timestamp | None
    preemptionReason: str
    endedAt: Timestamp | None
    outcome: OutcomeKind | None
    """Null until it ended."""
    exitReason: str
    machines: list[MachineOfRun]


class RunsOfTrialReply(TypedDict):
    now: Timestamp
    """Of the master's clock, which the times are of."""
    allocations: list[RunOfTrial]
    pagination: Pagination


@router.get("/experiments/{experiment_id}/events")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def experiment_events(
    experiment_id: RowId, query: Annotated[Rows, Query()], visible: Visible, api: TheApi
) -> Reply[EventsReply]:
    """Of the experiment, its trials, their allocations and checkpoints; the oldest first unless orderBy says else."""
    await api.reads.experiments.require_experiments([experiment_id], visible)
    return _events(await api.reads.events.of_experiment(experiment_id, query.page()))


@router.get("/trials/{trial_id}/events")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def trial_events(
    trial_id: RowId, query: Annotated[Rows, Query()], visible: Visible, api: TheApi
) -> Reply[EventsReply]:
    await api.reads.experiments.require_trials([trial_id], visible)
    return _events(await api.reads.events.of_trial(trial_id, query.page()))


@router.get("/trials/{trial_id}/allocations")
@permit(Action.VIEW_ARTIFACTS, VISIBLE)
async def trial_allocations(
    trial_id: RowId, query: Annotated[Rows, Query()], visible: Visible, api: TheApi
) -> Reply[RunsOfTrialReply]:
    """When the trial waited and ran, on which machines, at what price; in order."""
    await api.reads.experiments.require_trials([trial_id], visible)
    found = await api.reads.events.allocations(trial_id, query.page())
    machines = await _machines(api)
    return reply(
        {
            "now": time(api.services.clock.now()),
            "allocations": [_run(one, machines) for one in found.rows],
            "pagination": pagination(found),
        }
    )


def _events(found: Paged[Event]) -> Reply[EventsReply]:
    return reply({"events": [_event(one) for one in found.rows], "pagination": pagination(found)})


def _event(event: Event) -> EventRow:
    allocation = event.allocation
    return {
        "at": time(event.at),
        "kind": event.kind,
        "trialId": event.trial_id,
        "allocationId": allocation.id if allocation else None,
        "checkpointUuid": event.checkpoint.uuid if event.checkpoint else None,
        "agents": [] if event.kind is EventKind.ALLOCATION_QUEUED else _agents(allocation),
        "isProblem": is_problem(event),
        "text": text_of(event),
    }


def _agents(allocation: AllocationState | None) -> list[str]:
    containers = allocation.containers if allocation is not None else ()
    return list(dict.fromkeys(one.container.agent_id for one in containers))


async def _machines(api: ApiContext) -> Mapping[str, OpenMachine]:
    """Of elastic pools, by agent, whose id is the machine's."""
    if api.services.provisioner is None:
        return {}
    return {one.life.instance_id: one for one in await api.services.costs.machines()}


def _run(state: AllocationState, machines: Mapping[str, OpenMachine]) -> RunOfTrial:
    outcome = state.outcome
    return {
        "allocationId": state.id,
        "runId": state.run_id,
        "state": RUN_STATES[state.phase] if state.is_open else "ENDED",
        "pool": state.current_pool,
        "fellBackBecause": state.fell_back_because,
        "slots": state.slots,
        "requestedAt": time(state.requested_at),
        "pulledAt": time(state.pulled_at),
        "startedAt": time(state.started_at),
        "preemptionRequestedAt": time(state.preempt_asked_at),
        "preemptionReason": state.preempt_reason or "",
        "endedAt": time(state.ended_at),
        "outcome": outcome.kind if outcome is not None else None,
        "exitReason": outcome.reason if outcome is not None else "",
        "machines": [
            _machine(one.container.agent_id, len(one.container.slot_ids), machines)
            for one in state.containers
        ],
    }


def _machine(agent: str, slots: int, machines: Mapping[str, OpenMachine]) -> MachineOfRun:
    known = machines.get(agent)
    return {
        "agentId": agent,
        "slots": slots,
        "offer": shown_offer(known.record.offer.key) if known is not None else None,
        "usdPerHour": known_usd(known.life.usd_per_hour) if known is not None else None,
    }
