"""What to do when an agent connects: the containers it lists against the ones expected on it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_bootstrap.protocol import ContainerReport, ContainerState


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """One container that holds something of the agent."""

    container_id: str
    confirmed: bool = False
    ending: bool = False
    killed: bool = False
    startable: bool = False
    """The master has called `start` for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resync:
    """In the order in which they are carried out, `keep` being part of the Welcome. All but reports: container ids."""

    keep: tuple[str, ...] = ()
    reports: tuple[ContainerReport, ...] = ()
    start: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    never_started: tuple[str, ...] = ()
    """Killed before the agent heard of them."""
    vanished: tuple[str, ...] = ()
    """The agent knew them and does not any more."""


def resync(listed: Sequence[ContainerReport], expected: Sequence[Expected]) -> Resync:
    """The agent is truth for what runs on it, the master for what should. Containers not expected are not kept."""
    wanted = {item.container_id: item for item in expected}
    known = {report.container_id: report for report in listed}
    absent = [item for item in expected if item.container_id not in known and not item.ending]
    present = [report for report in listed if report.container_id in wanted]
    return Resync(
        keep=tuple(report.container_id for report in present),
        reports=tuple(r for r in present if not wanted[r.container_id].ending),
        kill=tuple(
            r.container_id
            for r in present
            if wanted[r.container_id].killed and r.state is not ContainerState.EXITED
        ),
        vanished=tuple(item.container_id for item in absent if item.confirmed),
        never_started=tuple(
            item.container_id for item in absent if not item.confirmed and item.killed
        ),
        start=tuple(
            item.container_id
            for item in absent
            if not item.confirmed and not item.killed and item.startable
        ),
    )
