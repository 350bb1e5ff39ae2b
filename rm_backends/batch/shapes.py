"""From slots to nodes: what a request asks of a batch system, and why a queue could never give it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from master.core.scheduler.end_times import LEAST_WALLTIME_S
from master.core.scheduler.explain import count
from master.core.scheduler.types import DEFAULT_PRIORITY
from provisioner.batch.base import Queue
from provisioner.batch.dialects import DIALECTS, Dialect
from provisioner.batch.job_files import JobShape
from rm_backends.base import AllocationRequest
from windlass.base.durations import format_duration
from windlass.base.errors import Unsatisfiable


def nothing_refused(arguments: Sequence[str]) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOptions:
    """One pool that dispatches: a partition, and what every job there gets."""

    pool: str
    system: str = "slurm"
    """slurm or pbs."""
    queue: str = ""
    """Empty: the site's default."""
    slots_per_node: int | None = None
    """None: the GPUs that most of its nodes have."""
    slot_type: str = ""
    """cuda, rocm or cpu. Empty: cuda if its nodes have GPUs, else cpu."""
    gpu_type: str = ""
    cpus_per_slot: int | None = None
    memory_mib_per_slot: int | None = None
    walltime_s: float | None = None
    arguments: tuple[str, ...] = ()
    """Before those of users."""
    also_refused: Callable[[Sequence[str]], Sequence[str]] = nothing_refused
    """Why arguments of users are not taken in this pool, beside what never is."""
    default_priority: int = DEFAULT_PRIORITY
    """Of work that asks for no priority. What is less important is so at the site, too."""
    asks_for_gpus: bool = True
    """False: the site does not know GPUs, and has `slots_per_node`, or 1, for each job on a node."""
    max_queued: int = 100
    """Jobs that wait at the site at once; the rest waits here."""

    as_users: bool = False
    """Each job is of the user of the operating system that its owner is linked to."""

    @property
    def dialect(self) -> Dialect:
        return DIALECTS[self.system]


def shape_of(request: AllocationRequest, options: DispatchOptions, queue: Queue | None) -> JobShape:
    """Raises Unsatisfiable. Without a queue, the site being unknown so far, nothing is held against it."""
    dialect, asked = options.dialect, request.batch.of(options.system)
    arguments = (*options.arguments, *asked.arguments)
    if wrong := [*dialect.problems(asked.arguments), *options.also_refused(asked.arguments)]:
        raise Unsatisfiable(f"{dialect.section}.{dialect.arguments_key}: {'; '.join(wrong)}")
    has_gpus = queue is None or queue.gpus_per_node > 0
    slot_type = options.slot_type or ("cuda" if has_gpus else "cpu")
    gpus = slot_type != "cpu"
    size = _slots_per_node(request, options, queue, gpus)
    slots = request.slots
    nodes = 1 if slots <= size else slots // size
    share = -(-slots // nodes)
    gpu_type = asked.gpu_type or options.gpu_type
    shape = JobShape(
        system=options.system,
        queue=options.queue or (queue.name if queue is not None else ""),
        nodes=nodes,
        slots_per_node=share,
        gpus_per_node=share if gpus else 0,
        slot_type=slot_type,
        gpu_type=gpu_type if gpus else "",
        asks_for_gpus=options.asks_for_gpus,
        cpus_per_node=_cpus(options, share, gpus),
        memory_mib_per_node=(
            None
            if options.memory_mib_per_slot is None
            else options.memory_mib_per_slot * max(1, share)
        ),
        walltime_s=None if dialect.wanted_walltime_s(arguments) is not None else options.walltime_s,
        nice=max(0, (request.job.priority or 0) - options.default_priority),
        avoid=tuple(sorted(request.blocked_agents)),
        arguments=arguments,
        user=request.os_user.user if options.as_users and request.os_user is not None else "",
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


def _slots_per_node(
    request: AllocationRequest, options: DispatchOptions, queue: Queue | None, gpus: bool
) -> int:
    asked = request.batch.of(options.system).slots_per_node or options.slots_per_node
    if asked is not None:
        return asked
    if not options.asks_for_gpus:
        return 1
    if gpus and queue is not None and queue.gpus_per_node:
        return queue.gpus_per_node
    return max(1, request.slots) if queue is None else 1


def _cpus(options: DispatchOptions, share: int, gpus: bool) -> int | None:
    if options.cpus_per_slot is not None:
        return options.cpus_per_slot * max(1, share)
    return None if gpus else max(1, share)


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
