"""Nodes that new pilots must not use, and agents that get no work because their pilot runs there all the same. Pure.

| a node is avoided because | until |
| --- | --- |
| an operator disabled an agent on it, of whichever pool | that is enabled, or `AVOIDED_S` after its pilot ended |
| everything that waits in the pool avoids it (log policies) | something waits that does not |

Slurm is told to exclude them. PBS cannot be told: agents of a pilot that it puts on a disabled node get no work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from provisioner.batch.base import JobReport, SiteFacts
from provisioner.ports import PilotHost
from provisioner.providers.pilots.book import Pilot

AVOIDED_S = 3600.0
"""Nobody can enable an agent that is gone: its node is tried again."""


def disabled(pilots: Iterable[Pilot], host: PilotHost) -> frozenset[str]:
    """By operators; `pilots`: all that are known, those that ended lately too."""
    return host.disabled_nodes().union(*(pilot.disabled for pilot in pilots))


def avoided(
    pilots: Iterable[Pilot], pool: str, host: PilotHost, site: SiteFacts | None
) -> tuple[str, ...]:
    """By new pilots of that pool. Names of none of the site's nodes are left out: Slurm refuses a job with these."""
    if site is None:
        return ()
    return tuple(sorted(site.nodes & (disabled(pilots, host) | host.avoided_nodes(pool))))


def noted_nodes(
    pilot: Pilot, job: JobReport, pilots: Iterable[Pilot], host: PilotHost, *, delivered: bool
) -> Mapping[str, Any]:
    """What is to be noted of the nodes of a pilot. `delivered`: it has them."""
    if not delivered:
        return {}
    comes = not pilot.ran
    return {
        "disabled": _disabled_of(pilot, job, host),
        "unused": _on(pilot, job, disabled(pilots, host)) if comes else pilot.unused,
    }


def _disabled_of(pilot: Pilot, job: JobReport, host: PilotHost) -> tuple[str, ...]:
    """As known before while not all of its agents are connected."""
    if host.connected(pilot.agents) < len(pilot.agents):
        return pilot.disabled
    return tuple(sorted(host.disabled_nodes().intersection(job.nodes)))


def _on(pilot: Pilot, job: JobReport, nodes: frozenset[str]) -> tuple[str, ...]:
    """Its agents there. They are numbered in the order in which the site names nodes."""
    return tuple(a for a, node in zip(pilot.agents, job.nodes, strict=False) if node in nodes)
