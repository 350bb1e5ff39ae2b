"""From slots to nodes: what a request asks of a batch system, and why a queue could never give it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from master.core.expconf.models.schema import DEFAULT_PRIORITY
from master.core.scheduler.end_times import LEAST_WALLTIME_S
from master.core.scheduler.explain import count
from provisioner.batch.base import Queue
from provisioner.batch.dialects import DIALECTS, Dialect
from provisioner.batch.job_files import JobShape
from provisioner.leases.shapes import job_shape
from provisioner.sections.batch import BatchSection
from rm_backends.base import AllocationRequest
from windlass.base.errors import Unsatisfiable
from windlass.base.formats.durations import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    """One pool that dispatches: a partition, and what every job there gets."""

    pool: str
    section: BatchSection
    default_priority: int = DEFAULT_PRIORITY
    """Of work that asks for no priority. What is less important is so at the site, too."""

    @property
    def dialect(self) -> Dialect:
        return DIALECTS[self.section.type]


def require_user(request: AllocationRequest, options: DispatchOptions) -> None:
    """Where jobs are of their users. Raises Unsatisfiable for one that is linked to nobody, or to root."""
    if not options.section.as_users:
        return
    who, whose = request.os_user, request.user or "its user"
    if who is None:
        raise Unsatisfiable(
            f"Pool '{options.pool}' submits each job as its user, and {whose} is linked to none: an administrator does "
            "that with `det user link-with-agent-user`"
        )
    if who.uid == 0 or who.user == "root":
        raise Unsatisfiable(
            f"Pool '{options.pool}' submits no job as root, to whom {whose} is linked: link them to another one "
            "with `det user link-with-agent-user`"
        )


def shape_of(request: AllocationRequest, options: DispatchOptions, queue: Queue | None) -> JobShape:
    """Raises Unsatisfiable. Without a queue, the site being unknown so far, nothing is held against it."""
    dialect, section = options.dialect, options.section
    asked = request.batch.of(section.type)
    if wrong := [*dialect.problems(asked.arguments), *section.also_refused(asked.arguments)]:
        raise Unsatisfiable(f"{dialect.section}.{dialect.arguments_key}: {'; '.join(wrong)}")
    size = asked.slots_per_node or _slots_per_node(request, section, queue)
    slots = request.slots
    nodes = 1 if slots <= size else slots // size
    shape = job_shape(section, queue, nodes, -(-slots // nodes))
    arguments = (*shape.arguments, *asked.arguments)
    limit = None if dialect.wanted_walltime_s(arguments) is not None else section.walltime
    shape = replace(
        shape,
        gpu_type=(asked.gpu_type or shape.gpu_type) if shape.slot_type != "cpu" else "",
        walltime_s=None if limit is None else limit.total_seconds(),
        nice=max(0, (request.job.priority or 0) - options.default_priority),
        avoid=tuple(sorted(request.blocked_agents)),
        arguments=arguments,
        user=request.os_user.user if section.as_users and request.os_user is not None else "",
    )
    if slots > size and slots % size:
        raise Unsatisfiable(
            f"Requested {count(slots, 'slot')}; pool '{options.pool}' gives {size} on each node, and work on more "
            f"than one node takes whole nodes: request {slots - slots % size} or {slots + size - slots % size}, "
            f"or set {dialect.section}.slots_per_node"
        )
    if request.single_agent and nodes > 1:
        raise Unsatisfiable(
            f"Requested {count(slots, 'slot')} on one node; nodes of pool '{options.pool}' have {size}"
        )
    if queue is not None:
        _require(shape, options, queue, dialect.wanted_walltime_s(arguments) or shape.walltime_s)
    return shape


def time_warnings(
    request: AllocationRequest, shape: JobShape, options: DispatchOptions, queue: Queue | None
) -> Iterator[str]:
    """Work that could go on in another job must get to its first checkpoint in this one."""
    dialect = options.dialect
    given = dialect.wanted_walltime_s(shape.arguments) or shape.walltime_s
    if given is None and queue is not None:
        given = queue.default_walltime_s or queue.max_walltime_s
    if request.preemptible and given is not None and given < LEAST_WALLTIME_S:
        least, found = (format_duration(timedelta(seconds=s)) for s in (LEAST_WALLTIME_S, given))
        yield (
            f"a job of pool '{options.pool}' gets {found}: work that does not end within that time needs at least "
            f"{least} to start, save a checkpoint and leave, else it gets nowhere; give a longer {dialect.time_option}"
        )


def _slots_per_node(request: AllocationRequest, section: BatchSection, queue: Queue | None) -> int:
    if section.slots_per_node is not None:
        return section.slots_per_node
    if not section.gres_supported:
        return 1
    if queue is None:
        return max(1, request.slots)
    return queue.gpus_per_node or 1 if section.slot_type_in(queue) != "cpu" else 1


def _require(
    shape: JobShape, options: DispatchOptions, queue: Queue, walltime_s: float | None
) -> None:
    dialect = options.dialect
    where = f"{dialect.queue} {queue.name} of pool '{options.pool}'"
    most = min(queue.nodes, queue.max_nodes or queue.nodes)
    if shape.nodes > most:
        raise Unsatisfiable(
            f"Requested {count(shape.nodes * shape.slots_per_node, 'slot')}; the maximum of {where} is "
            f"{most * shape.slots_per_node} ({count(most, 'node')} for one job, with {shape.slots_per_node} each)",
            nearest=[most * shape.slots_per_node],
        )
    known = shape.asks_for_gpus
    if known and shape.gpus_per_node > queue.gpus_per_node and queue.gpus_per_node:
        raise Unsatisfiable(
            f"Requested {count(shape.gpus_per_node, 'slot')} on each node; nodes of {where} have "
            f"{count(queue.gpus_per_node, 'GPU')}: request fewer, or set {dialect.section}.slots_per_node"
        )
    if known and shape.gpus_per_node and not queue.gpus_per_node:
        raise Unsatisfiable(
            f"Requested {count(shape.gpus_per_node, 'slot')}; {where} has no GPUs: use another pool, or set "
            "slot_type: cpu there"
        )
    if shape.gpu_type and queue.gpu_types and shape.gpu_type not in queue.gpu_types:
        raise Unsatisfiable(
            f'slurm.gpu_type: {where} has no "{shape.gpu_type}": its types are {", ".join(sorted(queue.gpu_types))}'
        )
    if (shape.cpus_per_node or 0) > queue.cpus_per_node:
        raise Unsatisfiable(
            f"Requested {count(shape.cpus_per_node or 0, 'CPU')} on each node; nodes of {where} "
            f"have {queue.cpus_per_node}"
        )
    limit = queue.max_walltime_s
    if limit is not None and walltime_s is not None and walltime_s > limit:
        raise Unsatisfiable(
            f"Requested {format_duration(timedelta(seconds=walltime_s))}; {where} gives a job "
            f"{format_duration(timedelta(seconds=limit))} at most: give a shorter {dialect.time_option}"
        )
