"""From the master's words to the agent protocol's, and back."""

from __future__ import annotations

import base64

from agent_bootstrap.protocol import (
    Bind,
    ContainerReport,
    ContainerSpec,
    ContainerState,
    ExitRecord,
    FileItem,
)
from rm_backends.base import Container, ContainerExit, ContainerPhase, FailureKind, LaunchSpec

_PHASES: dict[ContainerState, ContainerPhase] = {
    ContainerState.STARTING: ContainerPhase.STARTING,
    ContainerState.RUNNING: ContainerPhase.RUNNING,
    ContainerState.EXITED: ContainerPhase.TERMINATED,
}


def phase_of(report: ContainerReport) -> ContainerPhase:
    if report.pulling and report.state is ContainerState.STARTING:
        return ContainerPhase.PULLING
    return _PHASES[report.state]


def container_spec(spec: LaunchSpec, container: Container) -> ContainerSpec:
    """What one container of the allocation is given."""
    return ContainerSpec(
        container_id=container.container_id,
        allocation_id=spec.allocation_id,
        task_id=spec.task_id,
        task_type=spec.task_type,
        rank=container.rank,
        slot_ids=container.slot_ids,
        entrypoint=spec.entrypoint,
        environment=dict(spec.environment),
        work_dir=spec.work_dir,
        files=tuple(
            FileItem(path=f.path, content_b64=base64.b64encode(f.content).decode(), mode=f.mode)
            for f in spec.files
        ),
        binds=tuple(
            Bind(source=b.source, target=b.target, read_only=b.read_only) for b in spec.binds
        ),
        options=spec.options,
    )


def exit_of(report: ContainerReport) -> ContainerExit | None:
    """None while it runs. An EXITED report without a record means that nobody saw how it ended."""
    if report.state is not ContainerState.EXITED:
        return None
    return _exit(report.exit) if report.exit is not None else _UNSEEN


def _exit(record: ExitRecord) -> ContainerExit:
    return ContainerExit(
        exit_code=record.exit_code,
        failure=FailureKind(record.failure) if record.failure is not None else None,
        message=record.message,
        at=record.at,
    )


_UNSEEN = ContainerExit(
    exit_code=None, failure=FailureKind.AGENT_FAILED, message="the agent does not know how it ended"
)
