"""How far a job is until all of its agents have joined, in words for whoever waits for it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from provisioner.batch.base import JobPhase

JOIN_S = 20.0
"""Nodes of a job whose agents have not all joined so long after its start are asked what keeps them."""


def pending(what: str, why: str, words: str, way_out: str = "") -> str:
    """`why`: in the site's words; `words`: in plain ones; `way_out`: of one that will never start as it is."""
    text = f"{what} is pending: {why}" + (f" ({words})" if words else "")
    return f"{text}: it will never start like this: {way_out}" if way_out else text


def begun(
    what: str,
    phase: JobPhase,
    *,
    nodes: Sequence[str],
    since: float | None,
    joined: int,
    agents: int,
    said: str,
) -> str:
    """Of a job that has its nodes. `since`: when it started; `said`: what its nodes tell, see `JobFiles.nodes_say`."""
    where = f" on {', '.join(nodes)}" if nodes else ""
    match phase:
        case JobPhase.STARTING:
            return f"{what} starts{where}: the site prepares its nodes"
        case JobPhase.PAUSED:
            return f"{what}{where} is suspended by the site"
        case JobPhase.ENDING:
            return f"{what}{where} is being ended by the site"
    when = "" if since is None else f" since {utc(since)}"
    text = f"{what} runs{where}{when}: {joined} of {agents} agents have joined"
    return f"{text}; {said}" if said else text


def utc(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
