"""The one line that every waiting request gets: why it waits and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from master.core.reasons import Reason, ReasonKind
from master.core.scheduler.fitting import RequestShape
from master.core.scheduler.ledger import JobAccount, agents_in_time
from master.core.scheduler.types import PoolState, Waiting

NAMED = 3
"""How many ids a line names before it says how many more there are."""


def count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def names(ids: Sequence[str]) -> str:
    shown = ", ".join(ids[:NAMED])
    return shown if len(ids) <= NAMED else f"{shown} and {len(ids) - NAMED} more"


def above_max_slots(shape: RequestShape, max_slots: int) -> Waiting:
    text = (
        f"Requested {count(shape.slots, 'slot')}; the job's max_slots is {max_slots}: "
        "raise max_slots to run it"
    )
    return Waiting(reason=Reason(kind=ReasonKind.SHARE_USED, text=text))


def max_slots_used(account: JobAccount, claimed: int = 0) -> Waiting:
    """`claimed` are the slots that requests before it wait for and were not promised."""
    used = account.held + account.leaving
    text = f"max_slots limit reached ({used} of {count(account.job.max_slots or 0, 'slot')})"
    more = account.promised + claimed
    if more:
        text += f"; {more} more requested before it"
    return Waiting(reason=Reason(kind=ReasonKind.SHARE_USED, text=text))


def no_such_agent(shape: RequestShape, pool: PoolState, lasting: Mapping[str, int]) -> Waiting:
    """`lasting`: agents that may get work, with their slots."""
    needs = f"needs {count(shape.slots, 'slot')}"
    sizes = sorted(
        [size for agent, size in lasting.items() if size and agent not in shape.blocked]
        + [
            one.slots_per_agent
            for one in pool.launchable
            for _ in range(min(one.count, shape.slots))
        ]
    )
    if not sizes:
        text = f"{needs}, and no agent that can take work is connected"
        if any(agent.id in shape.blocked for agent in pool.agents):
            text = f"{needs}, and it must not use any of the connected agents"
    elif shape.single_agent or shape.slots < sizes[-1]:
        text = f"{needs} on one agent, and the largest has {sizes[-1]}"
    elif sum(sizes) < shape.slots:
        text = f"{needs}, and all agents together have {sum(sizes)}"
    else:
        kinds = ", ".join(str(size) for size in sorted(set(sizes)))
        types = {agent.slot_type for agent in pool.agents if agent.id in lasting}
        alike = " of one slot type" if len(types) > 1 else ""
        text = f"{needs}: no number of whole agents{alike} (with {kinds} slots) makes exactly that"
    return _capacity(ReasonKind.NO_SUCH_AGENT, text)


def needs_release(shape: RequestShape, victims: Sequence[str]) -> Waiting:
    """`victims` are the requests whose slots it waits for."""
    text = f"Waiting for {names(victims)} to be preempted ({count(shape.slots, 'slot')} needed)"
    return Waiting(reason=Reason(kind=ReasonKind.NEEDS_RELEASE, text=text), victims=tuple(victims))


def returning(shape: RequestShape) -> Waiting:
    """No longer demand: what is leaving anyhow leaves enough for it."""
    text = f"queued: {count(shape.slots, 'slot')} for it will be free when work that is stopping has left"
    return Waiting(reason=Reason(kind=ReasonKind.QUEUED, text=text))


def expected(shape: RequestShape, pool: PoolState) -> Waiting:
    """Booting or launchable capacity will hold it: the provisioner knows it as demand."""
    soon = agents_in_time(pool)
    booting = [one.ready_in_s for one in soon if one.booting]
    how = "agents are booting" if booting else "agents can be launched"
    ready = min(booting or (one.ready_in_s for one in soon), default=0.0)
    text = f"needs {_where(shape)}, not free now; {how}, ready in about {max(0, round(ready))} s"
    return _capacity(ReasonKind.NEEDS_CAPACITY, text)


def share_used(account: JobAccount, share: int, total: int) -> Waiting:
    used = account.held + account.leaving
    text = f"Fair-share limit reached ({used} of {count(share, 'slot')}; the pool has {total})"
    if account.leaving:
        text += f"; {account.leaving} are being released"
    return _capacity(ReasonKind.SHARE_USED, text)


def queued(account: JobAccount, in_use: int, total: int, *, in_turn: bool) -> Waiting:
    others = in_use - account.held - account.leaving
    text = (
        f"queued: {others} of {count(total, 'slot')} are in use by other jobs at their fair share"
    )
    return _capacity(ReasonKind.QUEUED, text, in_turn=in_turn)


def queued_behind(higher: int, same: int, *, kept: bool) -> Waiting:
    """`kept`: there are free slots for it, but those before it need them."""
    if not higher:
        text = f"queued behind {count(same, 'request')} of its own priority"
    elif not same:
        text = f"queued behind {count(higher, 'request')} of higher priority"
    else:
        text = f"queued behind {count(higher, 'request')} of higher priority and {same} of its own"
    if kept:
        text += "; free slots are kept for those before it"
    return _capacity(ReasonKind.QUEUED, text, in_turn=True)


def behind_first() -> Waiting:
    text = "queued behind the first waiting request of its job, which cannot be placed now"
    return _capacity(ReasonKind.QUEUED, text)


def scattered(
    shape: RequestShape, free: int, total: int, *, preempts: bool = True, in_turn: bool = True
) -> Waiting:
    if free >= shape.slots:
        why = "not together"
    elif preempts:
        why = "and the rest cannot be asked to leave"
    else:
        why = "and the rest is in use"
    text = f"queued: needs {_where(shape)}; {free} of {count(total, 'slot')} are free for it, {why}"
    return _capacity(ReasonKind.QUEUED, text, in_turn=in_turn)


def no_aux_place(pool: PoolState, *, returning: bool) -> Waiting:
    """For zero-slot tasks. `returning`: a place is about to be given back."""
    if returning:
        text = "queued: a place for it will be free when a task that is stopping has left"
        return Waiting(reason=Reason(kind=ReasonKind.QUEUED, text=text))
    if not any(agent.schedulable for agent in pool.agents):
        return _capacity(
            ReasonKind.NO_SUCH_AGENT, "needs an agent, and none that can take work is connected"
        )
    return _capacity(
        ReasonKind.NEEDS_CAPACITY,
        "all places for zero-slot tasks on the agents it may use are taken",
    )


def _where(shape: RequestShape) -> str:
    slots = count(shape.slots, "slot")
    return f"{slots} on one agent" if shape.single_agent and shape.slots > 1 else slots


def _capacity(kind: ReasonKind, text: str, *, in_turn: bool = False) -> Waiting:
    return Waiting(reason=Reason(kind=kind, text=text), needs_capacity=True, in_turn=in_turn)
