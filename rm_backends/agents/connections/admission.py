"""Whether there is room for an agent beside the others: nobody takes the place of one that is connected.

Pure. What it shows of itself is looked at in `joining`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from agent_bootstrap.protocol import HEARTBEAT_S, Hello, JoinRefused
from rm_backends.agents.agents import Agent
from rm_backends.agents.connections.joining import Proof

SILENT_S = 2 * HEARTBEAT_S
"""A connection that said nothing for this long gives way to a new one of the same agent."""
MAX_AGENTS = 20_000
MAX_ALL_SLOTS = 65_536
"""Of all agents: 8,192 machines of 8 GPUs. Whoever has the token of a pool can invent machines: each is remembered, and
each of its slots is listed."""
_HINT = "forget those that are gone (windlass master forget-agent ID)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Who is there when an agent says hello."""

    known: Agent | None
    """As who it says it is."""
    known_in: str
    """The pool of that one."""
    others: Collection[Agent]


def place_refusal(hello: Hello, proof: Proof, there: Neighbours, now: float) -> JoinRefused | None:
    """Why it has to wait. All of it may pass: it is to try again. `now`: monotonic seconds."""
    reason = _twin(proof, there.others) or _full(hello, there)
    if reason is None and there.known is not None:
        reason = _taken(hello, proof, there.known, there.known_in, now)
    return None if reason is None else JoinRefused(reason=reason, retry=True)


def _twin(proof: Proof, others: Collection[Agent]) -> str | None:
    for agent in others:
        if agent.link is not None and proof.is_of(agent.record):
            return (
                f"agent '{agent.id}' is connected with this credential: if this work_dir is a copy of that one's, "
                "remove 'credential' from it and give this agent a join token"
            )
    return None


def _full(hello: Hello, there: Neighbours) -> str | None:
    """One that is known already has its place."""
    had = None if there.known is None else there.known.record.slots
    if had is None and len(there.others) >= MAX_AGENTS:
        return f"there are {len(there.others)} agents already: {_HINT}"
    slots = sum(agent.record.slots for agent in there.others)
    if len(hello.slots) > (had or 0) and slots + len(hello.slots) > MAX_ALL_SLOTS:
        return f"other agents have {slots} slots of at most {MAX_ALL_SLOTS}: {_HINT}"
    return None


def _taken(hello: Hello, proof: Proof, known: Agent, known_in: str, now: float) -> str | None:
    """With its credential an agent replaces its own older connection, unless that seems to be another machine's."""
    if known_in != hello.pool and (known.link is not None or known.holds):
        return f"agent '{known.id}' is in use in pool '{known_in}'"
    if known.link is None or now - known.link.last_heard >= SILENT_S:
        return None
    if not proof.is_of(known.record):
        return f"agent '{known.id}' is connected already"
    if known.boot_id != hello.boot_id:
        return f"agent '{known.id}' is connected from another machine: is its work_dir a copy of that one's?"
    return None
