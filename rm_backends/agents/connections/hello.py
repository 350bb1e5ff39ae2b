"""What an agent says when it connects: why it may not, and what is remembered of it from then on. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from agent_bootstrap.frames import protocol_problem
from agent_bootstrap.protocol import PROTOCOL_VERSION, Hello, IsolationKind, JoinRefused, Slot
from provisioner.sections.pools import ResolvedPool
from rm_backends.agents.agents import Agent
from rm_backends.ports import AgentRecord, SlotService

_AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}")


def refusal(hello: Hello, pool: ResolvedPool, epoch: int) -> JoinRefused | None:
    """Why a master of this epoch cannot take the agent, whatever it knows of it already."""
    return introduction_refusal(hello, pool, epoch) or isolation_refusal(hello, pool)


def introduction_refusal(hello: Hello, pool: ResolvedPool, epoch: int) -> JoinRefused | None:
    """The same, as far as it shows before the agent runs."""
    if hello.protocol != PROTOCOL_VERSION:
        return JoinRefused(reason=f"the agent {protocol_problem(hello.protocol, hello.version)}")
    if hello.pool != pool.name:
        return JoinRefused(reason=f"connected for pool '{pool.name}', but says '{hello.pool}'")
    if _AGENT_ID.fullmatch(hello.agent_id) is None:
        return JoinRefused(reason="the agent id must be 1 to 200 letters, digits and . _ : @ -")
    if len({slot.id for slot in hello.slots}) != len(hello.slots):
        return JoinRefused(reason="two slots have the same number")
    if len({report.container_id for report in hello.containers}) != len(hello.containers):
        return JoinRefused(reason="one container is listed twice")
    if hello.highest_epoch > epoch:
        return JoinRefused(reason="the agent has seen a newer master", retry=True)
    return None


def isolation_refusal(hello: Hello, pool: ResolvedPool) -> JoinRefused | None:
    """It cannot contain tasks, and the pool wants that. With work running it asks again until an operator acts."""
    is_root = hello.uid == 0
    contains = hello.isolation not in (IsolationKind.DIRECTORY, IsolationKind.UNKNOWN)
    required = is_root if pool.section.require_isolation is None else pool.section.require_isolation
    if contains or not required:
        return None
    default = (
        ", as every pool does of agents that are root"
        if pool.section.require_isolation is None
        else ""
    )
    return JoinRefused(
        reason=f"pool '{pool.name}' requires isolation{default}, and the agent cannot contain tasks "
        f"({'; '.join(hello.notes) or f'isolation: {hello.isolation}'}): install bubblewrap or allow namespaces there, "
        "or set require_isolation: false for the pool in master.yaml",
        retry=bool(hello.containers),
    )


def shares_user(hello: Hello, machine: str, uid: int) -> str:
    """That its tasks run as the master's own user, on the master's machine; empty if they do not."""
    if hello.boot_id != machine or hello.uid != uid or uid == 0:
        return ""
    return (
        f"tasks run as the master's own user ({uid}) on the master's machine: only their mounts hide the master's "
        "folder from them. Run the agent as root, or as another user"
    )


def record_of(
    hello: Hello, known: Agent | None, now: datetime, credential_hash: str | None
) -> AgentRecord:
    """What operators did with it, or with a slot that it still has, stays; so does a credential it once had."""
    if known is None:
        return AgentRecord(
            agent_id=hello.agent_id,
            pool=hello.pool,
            slots=len(hello.slots),
            first_seen=now,
            instance_id=hello.instance_id,
            credential_hash=credential_hash,
        )
    return replace(
        known.record,
        pool=hello.pool,
        slots=len(hello.slots),
        slot_service=carry_over(known.record.slot_service, known.devices, hello.slots),
        instance_id=hello.instance_id,
        credential_hash=credential_hash or known.record.credential_hash,
    )


def carry_over(
    service: Mapping[int, SlotService], before: Sequence[Slot], now: Collection[Slot]
) -> dict[int, SlotService]:
    """How slots are in service once an agent has other devices: what was done with a device stays with it.

    A device without a uuid, or of an agent that is only remembered (`before` is empty), is known by its number.
    """
    numbers = {slot.id for slot in now}
    by_uuid = {slot.uuid: slot.id for slot in now if slot.uuid}
    uuids = {slot.id: slot.uuid for slot in before if slot.uuid}
    carried: dict[int, SlotService] = {}
    for number, how in service.items():
        moved = by_uuid.get(uuids[number]) if number in uuids else number
        if moved is not None and moved in numbers:
            carried[moved] = how
    return carried
